"""Faults and plans in words, as reports have them."""

from __future__ import annotations

from typing import Any

import msgspec

from simulator.errors import UsageError
from simulator.faults.plan.plan import FaultPlan
from simulator.faults.protocol import Fault
from simulator.topology import Topology

__all__ = ["describe_fault", "describe_plan", "goes_without_saying"]


def describe_plan(plan: FaultPlan) -> str:
    """All faults in one line, and the links that have conditions."""
    faults = (describe_fault(fault, plan.topology) for fault in plan.faults)
    return "; ".join([*faults, *(f"link {link}" for link in plan.links)]) or "no fault"


def describe_fault(fault: Fault, topology: Topology | None = None) -> str:
    """`kill worker:1 step=3`, or `partition worker:0 -> worker:1 step=2 duration=1s`.

    All that it says but its id, so that two faults that are not the same have not the same words. The tasks whose
    progress counts are left out where a plan that does not name them comes to the same. Without a topology that is seen
    only of those that are struck themselves.
    """
    mapping = FaultPlan(faults=(fault,)).to_mapping()["fault"][0]
    link = f"{mapping['src']} -> {mapping['dst']}" if "src" in mapping and "dst" in mapping else ""
    where = _joined(mapping.get("task", "")) or link
    if "of" in mapping and goes_without_saying(fault, topology):
        del mapping["of"]
    left = {key: value for key, value in mapping.items() if key not in ("kind", "id", "task", "src", "dst")}
    words = [f"{key}={_joined(value)}" for key, value in left.items()]
    # What a link carries may trigger what happens to a task.
    return " ".join(filter(None, [fault.kind, where, *words, f"on {link}" if link not in ("", where) else ""]))


def _joined(value: Any) -> str:
    return "+".join(value) if isinstance(value, (list, tuple)) else str(value)


def goes_without_saying(fault: Fault, topology: Topology | None) -> bool:
    """Whether a plan without `of` would come to the same; without a topology, whether `of` is what is struck."""
    struck = getattr(fault, "task", ())
    if topology is None:
        return fault.of in (struck, (struck,))
    try:
        with_and_without = [
            FaultPlan(faults=(each,)).expand(topology).faults[0].of
            for each in (fault, msgspec.structs.replace(fault, of=None))
        ]
    except UsageError:
        return False
    return with_and_without[0] == with_and_without[1]
