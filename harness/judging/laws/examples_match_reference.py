"""Law: per step, per epoch and overall, all replicas together consume the reference's examples, each as often."""

from __future__ import annotations

from collections.abc import Iterator

from harness.evidence.witness_values import rows_of
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.judging.wording import joined
from harness.ledger import Aligned, Differences, Ledger, aligned

_SHOWN_MAX = 8
_PLACES_MAX = 4
_SEEN = "; ids number the examples in the order of one device"


def _have_wholes(case: Case) -> bool:
    """Whether replicas of several clients are each given all that one device is given, by a program without a data set.

    It may take the replica's part of it by itself. Of a data set it is a mistake that each worker reads everything.
    """
    run, reference = case.run, case.reference.clients[0].steps
    if not run.examples_are_seen or len(run.clients) < 2 or any(each.counters.pipelines for each in run.clients):
        return False
    truth = {step.index: rows_of(step.seen) for step in reference if step.seen is not None and step.seen.examples}
    parts = [
        (step.index, part)
        for client in run.clients
        for step in client.steps
        for part in (() if step.seen is None else step.seen.examples or ())
    ]
    return bool(parts) and all(list(part) == truth.get(index) for index, part in parts)


class _ExamplesMatchReference(Law):
    id = "examples_match_reference"
    order = 40
    suffices = True
    counts = True

    def judge(self, case: Case) -> Judgement:
        both = aligned(case.run, case.reference)
        if not both.reference.clients:
            return not_judged(self.id, "the reference recorded no examples")
        if not both.run.clients:
            return not_judged(self.id, "the run recorded no examples")
        if both.run.silent:
            ours, silent = ", ".join(both.run.clients), ", ".join(both.run.silent)
            return not_judged(self.id, f"only {ours} recorded examples, not {silent}")
        if _have_wholes(case):
            return not_judged(self.id, "each replica is given the whole batch, and no data set")
        compared = len(both.epochs) if both.asynchronous else len(both.common)
        what = _SEEN if case.reference.clients[0].steps and case.reference.examples_are_seen else ""
        return judged(self.id, compared, tuple(self._findings(both, what)))

    def _findings(self, both: Aligned, what: str) -> Iterator[Finding]:
        """The first step and the first epoch that differ, and the whole run; steps mean nothing if asynchronous."""
        if not both.asynchronous and (steps := both.by_step.groups()):
            more = f" [{len(steps)} of {len(both.common)} steps differ]" if len(both.common) > 1 else ""
            if len(both.common) > 1 and not len(both.overall):
                more += "; over all steps the examples are the same"
            yield self._finding(both, "step", steps[0], both.by_step.of(steps[0]), more + what)
        if len(both.epochs) > 1 and (epochs := both.by_epoch.groups()):
            more = f" [{len(epochs)} of {len(both.epochs)} epochs differ]{what}"
            yield self._finding(both, "epoch", epochs[0], both.by_epoch.of(epochs[0]), more)
        one_step = len(both.common) == 1 and both.run.reached == both.reference.reached
        if len(both.overall) and (both.asynchronous or not one_step):
            yield self._finding(both, "run", 0, both.overall, what)

    def _finding(self, both: Aligned, unit: str, number: int, found: Differences, more: str) -> Finding:
        """The finding's numbers are those of its first wrong example: how often it was and should have been seen."""
        run, truth = (_part(ledger, unit, number) for ledger in (both.run, both.reference))
        when = "over all steps" if unit == "run" else f"{unit} {number}"
        parts = [f"{when}: {len(run)} examples, expected {len(truth)}"]
        missing, excess = (
            found.where(mask) for mask in (found.observed < found.expected, found.observed > found.expected)
        )
        if len(missing):
            parts.append(f"missing {_listed(missing)}")
        if len(excess):
            parts.append(f"too many {_listed(excess)}{_places(run, int(excess.id[0]), unit)}")
        first = missing if len(missing) else excess
        last = {"step": number, "epoch": max(truth.with_steps_recorded().reached, default=None)}
        return Finding(
            law=self.id,
            text="; ".join(parts) + more,
            step=last.get(unit),
            observable="examples",
            index=(int(first.id[0]),),
            observed=int(first.observed[0]),
            expected=int(first.expected[0]),
            bound=0.0,
        )


def _part(ledger: Ledger, unit: str, number: int) -> Ledger:
    if unit == "run":
        return ledger
    return ledger.where(step=number) if unit == "step" else ledger.where(epoch=number)


def _listed(found: Differences) -> str:
    """`3 ids: 17, 20 x2, 31`, where x2 means two too few or too many."""
    apart = abs(found.observed - found.expected)[:_SHOWN_MAX].tolist()
    ids = found.id[:_SHOWN_MAX].tolist()
    shown = [str(key) if count == 1 else f"{key} x{count}" for key, count in zip(ids, apart, strict=True)]
    more = f", and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
    return f"{len(found)} id{'s' if len(found) > 1 else ''}: {', '.join(shown)}{more}"


def _places(run: Ledger, example: int, unit: str) -> str:
    """` (5 on worker:0 replica 0 and worker:1 replica 2)`, with the steps unless there is only one."""
    rows = (run.id == example).nonzero()[0][: _PLACES_MAX + 1].tolist()
    places = []
    for row in rows[:_PLACES_MAX]:
        worker = run.workers[int(run.worker[row])]
        replica = f" replica {run.replica[row]}" if sum(run.replicas) > 1 else ""
        places.append(f"{worker}{replica}" if unit == "step" else f"{worker}{replica} at step {run.step[row]}")
    return f" ({example} on {joined(places)}{' and elsewhere' if len(rows) > _PLACES_MAX else ''})"


LAW = _ExamplesMatchReference()
