"""Law: a run of several tasks has exchanged what its strategy needs, and was not as many trainings side by side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from harness.evidence.links import Links
from harness.evidence.observed import is_integer
from harness.evidence.trace import Array, ClientTrace, RunTrace, Value, Variable
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged
from harness.subject.strategies import kind_of

# A worker tells the coordination service of TensorFlow that it is alive every 5 s (half its limit of 10 s), which takes
# 173 bytes there and 126 back with TensorFlow 2.21.
_HEARTBEAT_SECONDS = 5.0
_HEARTBEAT_BYTES = 256


class _TasksConnected(Law):
    id = "tasks_connected"
    order = 120
    suffices = False

    def concerns(self, case: Case) -> bool:
        return case.links is not None

    def judge(self, case: Case) -> Judgement:
        """Judge the whole run by its bytes, and what came after the strategy was built by those that are more."""
        links = case.links
        assert links is not None
        clients = [client.header.task for client in case.run.clients]
        texts = {task: text for task in clients if (text := _silent(links, task)) is not None}
        if not texts and links.seconds is not None and _keeps_state(case.run):
            workers = [task for task in links.tasks if task.startswith("worker:")]
            servers = tuple(task for task in links.tasks if task.startswith("ps:"))
            texts = dict(_served(links, clients[0], workers, servers) if servers else _alone(links, clients))
            kind = kind_of(case.run.header.strategy)
            counted = kind is None or not kind.on_mesh  # nobody counts the collectives in graphs of DTensor's
            if not texts and not servers and counted:
                texts = dict(_only_reported(case.run))
        findings = tuple(Finding(self.id, text, task=task) for task, text in texts.items())
        return judged(self.id, len(links.links), findings)


def _silent(links: Links, task: str) -> str | None:
    others = tuple(other for other in links.tasks if other != task)
    sent, got = links.between(task, others)
    if sent and got:
        return None
    return f"{task} has sent {sent} bytes to other tasks and got {got}: they were not connected"


def _keeps_state(run: RunTrace) -> bool:
    """Whether something was reported that the strategy has to keep the same everywhere."""
    records = (record for client in run.clients for record in (*client.steps, client.final) if record is not None)
    return any(record.variables or getattr(record, "gradients", None) for record in records)


def _alone(links: Links, workers: list[str]) -> Iterator[tuple[str, str]]:
    """Workers that neither opened a connection for a collective nor exchanged more than heartbeats."""
    beats = _HEARTBEAT_BYTES * (1 + int((links.seconds or 0.0) / _HEARTBEAT_SECONDS))
    for task in workers:
        mine = [link for link in links.links if task in (link.src, link.dst)]
        sent = sum(link.since_built or 0 for link in mine if link.src == task)
        got = sum(link.since_built or 0 for link in mine if link.dst == task)
        if not any(link.opened for link in mine) and min(sent, got) <= beats:
            text = (
                f"after the strategy was built {task} has sent {sent} bytes to other workers and got {got}, no more "
                "than heartbeats take: the program trained in each worker by itself"
            )
            yield task, text


def _only_reported(run: RunTrace) -> Iterator[tuple[str, str]]:
    """Workers that combined with others nothing but what they then reported, such as the loss.

    What trained the variables has to have been combined as well: in the step, and more than single numbers unless the
    state consists of such; or in whatever way, and more often than values of so many elements were reported; or it was
    followed into every variable that has changed. Workers that have drifted apart show it themselves
    (`replicas_agree`).
    """
    if any(_last_state(client) != _last_state(run.clients[0]) for client in run.clients):
        return
    works = [client.counters.work for client in run.clients]
    apart = len({work.contributed for work in works if work is not None}) > 1
    for client in run.clients:
        work, sizes, moved = client.counters.work, _state_sizes(client), _moved(client)
        if work is None or not sizes or (moved and moved.keys() <= set(work.changed)):
            continue
        least = 1 if max(sizes) <= 1 else 2
        # Nobody learns from others what they all have. Where they had different things the program was handed something
        # that it could train with, eagerly, which no graph shows.
        used = [*work.combined, *(work.handed if apart else ())]
        trained = [size for size in used if size >= least or size == 0]
        unreported = Counter(work.returned) + Counter(work.combined)
        for size, times in _reported_sizes(client).items():
            unreported[size] -= times * max(1, client.header.local_replicas)
        if not trained and not +unreported:
            done = sum(work.combined.values()) + sum(work.returned.values())
            text = (
                f"{client.header.task} combined {done} values with other workers, and no more than was reported: what "
                "it trained depends on no other worker"
            )
            yield client.header.task, text


def _last_state(client: ClientTrace) -> dict[str, Array]:
    """The first copy of each variable where variables were recorded last."""
    for record in (client.final, *reversed(client.steps)):
        if variables := getattr(record, "variables", None):
            return {variable.name: variable.value for variable in variables}
    return {}


def _moved(client: ClientTrace) -> dict[str, int]:
    """Of each variable that has changed and is kept alike the number of elements."""
    moved: dict[str, int] = {}
    first: dict[str, Variable] = {}
    for record in (*client.steps, client.final):
        for variable in getattr(record, "variables", None) or ():
            kept = variable.kind != "on_read" and not is_integer(variable.value.dtype)
            if kept and first.setdefault(variable.name, variable) != variable:
                moved[variable.name] = math.prod(variable.value.shape)
    return moved


def _state_sizes(client: ClientTrace) -> list[int]:
    """The numbers of elements of what was trained: gradients, and variables that have changed and are kept alike."""
    records = (*client.steps, client.final)
    gradients = (gradient for record in records for gradient in getattr(record, "gradients", None) or ())
    return [*_moved(client).values(), *(math.prod(part.shape) for each in gradients for part in each.parts)]


def _reported_sizes(client: ClientTrace) -> Counter[int]:
    """How often a value of so many elements was reported that had been put together from all replicas."""
    found: Counter[int] = Counter()
    for record in (*client.steps, client.final):
        for field in ("loss", "metrics", "predictions"):
            values = getattr(record, field, None)
            for value in (values,) if isinstance(values, Value) else values or ():
                if not value.per_replica:
                    found.update(math.prod(part.shape) for part in value.parts)
    return found


def _served(links: Links, chief: str, workers: list[str], servers: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The chief, if no worker has exchanged anything with a parameter server."""
    if not any(all(links.between(worker, servers)) for worker in workers):
        text = "no worker has exchanged a byte with a parameter server: the program trained in the chief by itself"
        yield chief, text


LAW = _TasksConnected()
