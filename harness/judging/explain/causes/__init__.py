"""Why a run consumed other examples than its reference, one file for each cause; a new file with a `CAUSE` is one."""

from __future__ import annotations

from functools import cache

from _lockstep.kinds import kinds_of
from harness.evidence.pipelines import Pipeline
from harness.judging.explain.causes.protocol import Cause, Inputs, NamedCause
from harness.judging.laws.protocol import Case
from harness.ledger import Aligned, aligned

__all__ = ["Cause", "Inputs", "NamedCause", "all_causes", "cause_of", "named_causes"]


@cache
def all_causes() -> tuple[Cause, ...]:
    """Every cause of this package, most specific first."""
    found: list[Cause] = [module.CAUSE for module in kinds_of(__name__)]
    return tuple(sorted(found, key=lambda cause: (cause.priority, cause.id)))


def named_causes(both: Aligned, pipelines: tuple[Pipeline, ...] = ()) -> tuple[NamedCause, ...]:
    """The causes that reproduce who consumed what, most specific first; none if nothing is wrong."""
    right = not len(both.overall) and not len(both.by_epoch) and (both.asynchronous or not len(both.by_step))
    inputs = None if right else Inputs.of(both, pipelines)
    if inputs is None:
        return ()
    found = _reproduced(inputs)
    again = None if found else inputs.in_passes()
    return found if again is None else _reproduced(again)


def _reproduced(inputs: Inputs) -> tuple[NamedCause, ...]:
    found = []
    for cause in all_causes():
        made = next((one for one in cause.predictions(inputs) if one.reproduces(inputs)), None)
        if made is not None:
            found.append(NamedCause(cause.id, made.text))
    return tuple(found)


_latest: list[tuple[Case, NamedCause | None]] = []


def cause_of(case: Case) -> NamedCause | None:
    """The most specific cause, with the names of others that fit as well; the latest case's answer is kept."""
    if not _latest or _latest[0][0] is not case:
        found = named_causes(aligned(case.run, case.reference), case.run.clients[0].counters.pipelines)
        also = ", ".join(one.cause for one in found[1:])
        first = found[0] if found else None
        if first is not None and also:
            first = NamedCause(first.cause, f"{first.text} (The same ids would also come from {also}.)")
        _latest[:] = [(case, first)]
    return _latest[0][1]
