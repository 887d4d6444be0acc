"""What a resumed part of a run begins with, beside what it should, and beside what the training began with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.evidence.trace import MEMORY, Array, Variable
from harness.judging.explain._resumption import Resumption
from harness.judging.laws._initial_values import initial_values

_ROUNDING = 1e-4
SHOWN = 4


@dataclass(frozen=True)
class LostState:
    """Of the variables of a part.

    Attributes:
        names: of those that hold what the training began with, and should not.
        said: what each of these holds and should, in words.
        kept: how many others hold what they should, and did not begin with.
        memory: whether it is what callbacks remember that was lost.
        others: how many hold something else.
    """

    names: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    kept: int = 0
    memory: bool = False
    others: int = 0


def lost_state(found: Resumption) -> LostState | None:
    """What was lost where the resumed part begins; None where that is not known."""
    case = found.view.case
    run, reference = (trace.clients[0].start for trace in (case.run, case.reference))
    first = found.found.reference.clients[0].trained_from
    if found.found.in_epochs or run is None or reference is None or first is None or case.begin == 0:
        return None
    lost = _lost(*initial_values([run, reference, first]))
    if lost.names or not lost.kept:
        return lost
    forgot = _lost(*initial_values([run, reference, first], [MEMORY]))
    return LostState(forgot.names, forgot.said, lost.kept, memory=True) if forgot.names and not forgot.others else lost


def restored(found: Resumption) -> list[tuple[Variable, Variable]] | None:
    """The variables that the resumed part begins with as they were after a step, with what the training began with.

    None where that is not known. What is neither was drawn anew, as weights are that no seed determines.
    """
    part, training = found.view.case.run.clients[0].start, found.found.reference.clients[0].trained_from
    if part is None or training is None:
        return None
    pairs = zip(*initial_values([part, training]), strict=True)
    others = [(ours, anew) for ours, anew in pairs if not is_alike(ours.value, anew.value)]
    return [(ours, anew) for ours, anew in others if _was_held(found, ours)]


def _was_held(found: Resumption, ours: Variable) -> bool:
    """Whether the killed part had this value of a variable after a step; so it is told where that was not recorded."""
    held = [step[ours.name] for step in found.before.values() if ours.name in step]
    return not held or any(is_alike(ours.value, Array.of(each.array.astype(each.dtype))) for each in held)


def _lost(run: Sequence[Variable], reference: Sequence[Variable], first: Sequence[Variable]) -> LostState:
    names, said, kept, others = [], [], 0, 0
    for ours, theirs, anew in zip(run, reference, first, strict=True):
        if is_alike(ours.value, theirs.value):
            kept += theirs.value != anew.value
        elif ours.value == anew.value:
            observed, expected = (each.value.numpy().reshape(-1) for each in (ours, theirs))
            at = int((observed != expected).argmax())
            where = f"[{at}]" if observed.size > 1 else ""
            names.append(ours.name)
            now, then = (_shown(each[at]) for each in (observed, expected))
            said.append(f"{ours.name!r}{where} is {now} after the restart where it was {then}")
        else:
            others += 1
    return LostState(tuple(names), tuple(said), kept, others=others)


def _shown(number: Any) -> str:
    """A whole number as it is, any other as float32 has it."""
    import numpy as np

    return str(number) if isinstance(number, np.integer | np.bool_) else f"{number:.7g}"


def is_alike(one: Array, other: Array) -> bool:
    """Whether one is the other but for what some steps round."""
    import numpy as np

    if one == other or one.dtype != other.dtype or not one.is_floating:
        return one == other
    ours, theirs = one.numpy().astype(complex), other.numpy().astype(complex)
    return bool(np.allclose(ours, theirs, rtol=_ROUNDING, atol=_ROUNDING * float(np.max(np.abs(theirs), initial=0.0))))
