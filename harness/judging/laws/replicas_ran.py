"""Law: every replica ran the step, and gradients were taken in all of them if they were taken at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.evidence.trace import OUTSIDE, ClientTrace, RunTrace
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.judging.placed_work import placed_by_hand
from harness.subject.strategies import kind_of


class _ReplicasRan(Law):
    """A program that leaves the strategy alone and trains on one device has all the right numbers."""

    id = "replicas_ran"
    order = 115
    suffices = False

    def judge(self, case: Case) -> Judgement:
        run = case.run
        kind = kind_of(run.header.strategy)
        if kind is not None and kind.steps_apart:
            return not_judged(self.id, kind.steps_apart)
        if run.header.replicas < 2:
            return not_judged(self.id, "the strategy has no replicas that run in step")
        if not _trains(run):
            return not_judged(self.id, "nothing was reported that a step of training computes")
        # A process that a fault has killed never came to write down what its replicas did.
        clients = [client for client in run.clients if client.counters.work is not None]
        if not clients:
            return not_judged(self.id, "no client came to its end")
        if placed_by_hand(run):
            return not_judged(self.id, "the program places its work on devices itself, and runs nothing in replicas")
        findings = tuple(
            Finding(self.id, text, task=client.header.task) for client in clients for text in _missing(client)
        )
        return judged(self.id, sum(client.header.local_replicas for client in clients), findings)


def _trains(run: RunTrace) -> bool:
    """Whether a loss or gradients were reported, or variables that have changed.

    Others may read data, restore variables, or evaluate.
    """
    steps = [step for client in run.clients for step in client.steps]
    if any(step.loss is not None or step.gradients for step in steps):
        return True
    records = (*run.clients[0].steps, run.clients[0].final)
    states = [
        {variable.name: variable.copies for variable in variables}
        for record in records
        if (variables := getattr(record, "variables", None))
    ]
    return any(state != states[0] for state in states)


def _missing(client: ClientTrace) -> Iterator[str]:
    work, wanted, task = client.counters.work, client.header.local_replicas, client.header.task
    if work is None or not wanted:
        return
    if len(work.entered) < wanted:
        ran = f"only {_listed(work.entered)} of the {wanted} of {task}" if work.entered else f"no replica of {task}"
        yield (
            f"{ran} ran: the program did not train through strategy.run, or fit, and its numbers "
            "are those of one device"
        )
        return
    inside = [replica for replica in work.gradients if replica != OUTSIDE]
    if inside and len(inside) < wanted:
        yield f"{task} has {wanted} replicas, but gradients were taken in {_listed(inside)}: the others did not train"
    elif work.gradients and not inside and not work.reduced:
        # A step may be traced outside first, or have a gradient of its own; then its replicas combine something.
        yield (
            f"gradients were taken outside of strategy.run only, and the replicas of {task} have combined nothing: "
            "they did not train"
        )


def _listed(replicas: Iterable[int]) -> str:
    numbers = sorted(replicas)
    return f"replica{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


LAW = _ReplicasRan()
