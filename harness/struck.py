"""The numbers that faults of a plan have changed (`nan`, `bitflip`): read from the journal, placed among the steps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.disturbance import describe_fault
from harness.laws.protocol import Case
from harness.observed import moments
from simulator import FaultPlan, RunResult
from simulator.journal import read_journal

__all__ = ["Strike", "Struck", "placed", "read_struck", "restored", "save_struck"]

_FILE = "struck.json"


class Struck(msgspec.Struct, frozen=True):
    """One number that a fault has changed in one process.

    Attributes:
        fault: the fault of the plan, in words.
        task: whose process it was.
        incarnation: which one, 0 for the first.
        done: the steps that this process had announced by then.
        target: `gradient` or `variable`.
        variable: the variable whose number it is, or whose gradient's, by the name that TensorFlow has for it.
        replica: which of the task's own replicas.
        element: the flat index of the number.
        before: the number, as text: JSON has no NaN.
        after: what it became.
    """

    fault: str
    task: str
    incarnation: int
    done: int
    target: str
    variable: str
    replica: int
    element: int
    before: str
    after: str

    @property
    def size(self) -> float:
        """By how much it was changed; infinite if the change is no number."""
        change = abs(float(self.after) - float(self.before))
        return math.inf if math.isnan(change) else change


@dataclass(frozen=True)
class Strike:
    """A changed number among the steps of a case.

    `after` is the last step of the reference, or 0, whose record was made before. A variable was changed after this
    step, a gradient while the next one was computed.
    """

    struck: Struck
    after: int


def save_struck(directory: Path, result: RunResult) -> None:
    """Leave in a run's directory which numbers its faults have changed, read from its journal and its plan."""
    file = result.directory / "plan.json"
    # A run that failed before its tasks had begun has none.
    found = list(_found(result.directory / "journal.jsonl", FaultPlan.load(file))) if file.exists() else []
    (directory / _FILE).write_bytes(msgspec.json.encode(found))


def read_struck(directory: Path) -> tuple[Struck, ...]:
    """What `save_struck` has left; nothing for a run without faults, and for one of an earlier version of Lockstep."""
    file = directory / _FILE
    return msgspec.json.decode(file.read_bytes(), type=tuple[Struck, ...]) if file.exists() else ()


def _found(journal: Path, plan: FaultPlan) -> Iterator[Struck]:
    faults = {str(fault.id): fault for fault in plan.faults}
    done: Counter[tuple[str, int]] = Counter()
    for event in read_journal(journal):
        if event["event"] == "step":
            done[event["task"], event["incarnation"]] = event["number"]
        elif event["event"] == "acted" and event["effect"].get("before") != event["effect"].get("after"):
            # A fault that acts otherwise than on a number has no number after it.
            fault, effect = faults[event["fault"]], event["effect"]
            if "after" not in effect:
                continue
            yield Struck(
                fault=describe_fault(fault, plan.topology),
                task=event["task"],
                incarnation=event["incarnation"],
                done=done[event["task"], event["incarnation"]],
                target=str(fault.target),  # type: ignore[attr-defined]
                **{key: effect[key] for key in ("variable", "replica", "element", "before", "after")},
            )


def placed(case: Case, struck: Iterable[Struck]) -> tuple[Strike, ...]:
    """The numbers changed in the processes of a case, among its steps."""
    steps = [moment.step for moment in moments(case.run, aligned_to=case.reference) if moment.step is not None]
    begin = steps[0] - 1 if steps else _begin(case)
    return tuple(
        Strike(each, steps[each.done - 1] if 0 < each.done <= len(steps) else begin + each.done) for each in struck
    )


def restored(case: Case, strikes: Iterable[Strike]) -> tuple[Strike, ...]:
    """Of what was changed in earlier processes, that which can have been in the state that a case began with.

    Where that is older than the change, or nothing was restored, the change is lost.
    """
    begin = _begin(case)
    return tuple(each for each in strikes if 0 < begin >= each.after + (each.struck.target == "gradient"))


def _begin(case: Case) -> int:
    """The last step of the reference that lies before a case."""
    if case.interruption is not None:
        return case.interruption.resumed_at
    steps = case.reference.clients[0].steps
    return steps[0].index - 1 if steps else 0
