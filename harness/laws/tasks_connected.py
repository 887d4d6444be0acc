"""Law: a run of several tasks has exchanged what its strategy needs, and was not as many trainings side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.links import Links
from harness.trace import RunTrace

__all__ = ["LAW"]

# A worker tells the coordination service of TensorFlow that it is alive every 5 s (half its limit of 10 s), which takes
# 173 bytes there and 126 back with TensorFlow 2.21.
_HEARTBEAT_SECONDS = 5.0
_HEARTBEAT_BYTES = 256


@dataclass(frozen=True)
class _TasksConnected:
    id: str = "tasks_connected"
    order: int = 120

    def judge(self, case: Case) -> Judgement:
        """Judge the whole run by its bytes, and what came after the strategy was built by those that are more."""
        links = case.links
        if links is None:
            return not_judged(self.id, "the run was one process")
        clients = [client.header.task for client in case.run.clients]
        texts = {task: text for task in clients if (text := _silent(links, task)) is not None}
        if not texts and links.seconds is not None and _keeps_state(case.run):
            workers = [task for task in links.tasks if task.startswith("worker:")]
            servers = tuple(task for task in links.tasks if task.startswith("ps:"))
            texts = dict(_served(links, clients[0], workers, servers) if servers else _alone(links, clients))
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


def _served(links: Links, chief: str, workers: list[str], servers: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The chief, if no worker has exchanged anything with a parameter server."""
    if not any(all(links.between(worker, servers)) for worker in workers):
        text = "no worker has exchanged a byte with a parameter server: the program trained in the chief by itself"
        yield chief, text


LAW: Law = _TasksConnected()
