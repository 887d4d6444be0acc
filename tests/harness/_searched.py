"""A program without TensorFlow that saves and resumes, with a defect that needs two faults in order."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from harness.search import PlanOutcome
from harness.search.trial import outcome_of_failure
from simulator import Cluster, FaultPlan, RunFailed, Topology
from simulator.agent import current
from simulator.machines.local.scratch import scratch

STEPS = 4


def counting(folder: Path, steps: int, mistake: str) -> int:
    """Add up the numbers of the steps, saving after every step, and at SIGTERM as well.

    With the mistake `stale` what was saved at SIGTERM counts for ever, also when later steps have been saved since: so
    a preemption and, once there has been progress, a death of any kind add some steps twice. Neither alone does. With
    the mistake `crash` it cannot go on from what it has saved.
    """
    regular, urgent = folder / "state.json", folder / "urgent.json"
    state = json.loads(regular.read_text()) if regular.exists() else {"step": 0, "sum": 0}
    if mistake == "crash" and state["step"]:
        raise ArithmeticError("cannot resume")
    if urgent.exists():
        at = json.loads(urgent.read_text())["step"]
        state["step"] = at if mistake == "stale" else max(at, state["step"])

    def save(path: Path, value: dict[str, int]) -> None:
        path.with_suffix(".new").write_text(json.dumps(value))
        path.with_suffix(".new").replace(path)

    def terminated(*_: Any) -> None:
        save(urgent, {"step": state["step"]})
        sys.exit(143)

    signal.signal(signal.SIGTERM, terminated)
    task = current()
    assert task is not None
    while state["step"] < steps:
        state = {"step": state["step"] + 1, "sum": state["sum"] + state["step"] + 1}
        save(regular, state)
        task.step(state["step"])
    return int(state["sum"])


def run_counting(plan: FaultPlan, mistake: str = "stale") -> PlanOutcome:
    """Run it under a plan, with restarts; right is the sum that an undisturbed run has."""
    began = time.monotonic()
    with (
        scratch("counting") as folder,
        Cluster(Topology(worker=1), preload=(), timeout=20, restarts=5, faults=plan) as cluster,
    ):
        try:
            result = cluster.run(counting, folder, STEPS, mistake)
            unfired: tuple[str, ...] = ()
        except RunFailed as failure:
            found = outcome_of_failure(failure)
            if not found:
                return found
            result = failure.result
            unfired = tuple(cause.message for cause in failure.causes)
    total = result["worker:0"].value
    wrong = total != sum(range(STEPS + 1))
    return PlanOutcome(
        symptom="numbers" if wrong else None,
        text=f"the sum is {total}",
        unfired=unfired,
        restarts=result["worker:0"].incarnation,
        seconds=time.monotonic() - began,
    )
