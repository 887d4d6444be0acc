"""The numbers that faults of a plan have changed (`nan`, `bitflip`): read from the journal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from simulator import FaultPlan, RunResult
from simulator.faults import describe_fault
from simulator.journal import read_journal

_FILE = "struck.json"


class CorruptValue(msgspec.Struct, frozen=True):
    """One number that a fault has changed in one process.

    Attributes:
        fault: the fault of the plan, in words.
        task: whose process it was.
        incarnation: which one, 0 for the first.
        done: the steps that this process had announced by then.
        target: `gradient`, `reduction` or `variable`.
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


def save_corrupt_values(directory: Path, result: RunResult) -> None:
    """Leave in a run's directory which numbers its faults have changed, read from its journal and its plan."""
    file = result.directory / "plan.json"
    # A run that failed before its tasks had begun has none.
    found = list(_found(result.directory / "journal.jsonl", FaultPlan.load(file))) if file.exists() else []
    (directory / _FILE).write_bytes(msgspec.json.encode(found))


def read_corrupt_values(directory: Path) -> tuple[CorruptValue, ...]:
    """What `save_corrupt_values` has left; nothing for a run without faults, and for one of an older Lockstep."""
    file = directory / _FILE
    return msgspec.json.decode(file.read_bytes(), type=tuple[CorruptValue, ...]) if file.exists() else ()


def _found(journal: Path, plan: FaultPlan) -> Iterator[CorruptValue]:
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
            yield CorruptValue(
                fault=describe_fault(fault, plan.topology),
                task=event["task"],
                incarnation=event["incarnation"],
                done=done[event["task"], event["incarnation"]],
                target=str(fault.target),  # type: ignore[attr-defined]
                **{key: effect[key] for key in ("variable", "replica", "element", "before", "after")},
            )
