"""Made-up journals: the events of runs that never were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]

KILL = {"id": "kill-1", "kind": "kill", "step": 2, "of": ["worker:1"], "task": ["worker:1"], "restart": "1s"}
DELAY = {"id": "delay-1", "kind": "delay", "time": "1s", "src": "worker:0", "dst": "worker:1", "delay": "20ms"}


class Script:
    """Writes events one after the other; times are seconds since the start."""

    def __init__(self, *tasks: str, origin: float = 1000.0) -> None:
        self.origin = origin
        self.events: list[Event] = [
            {"t": origin - 0.001, "event": "journal", "wall": 5000.0},
            {"t": origin, "event": "start", "topology": f"{len(tasks)} worker", "tasks": list(tasks), "ports": {}},
        ]

    def add(self, t: float, event: str, **fields: Any) -> Script:
        """One event; `at` is given since the start too."""
        if "at" in fields:
            fields["at"] += self.origin
        self.events.append({"t": self.origin + t, "event": event, **fields})
        return self

    def steps(self, task: str, times: list[float], incarnation: int = 0) -> Script:
        """Steps from 1 on, heard 1 ms after they were announced."""
        for number, at in enumerate(times, start=1):
            self.add(at + 0.001, "step", task=task, incarnation=incarnation, number=number, at=at)
        return self

    def begins(self, at: float, task: str, incarnation: int = 0, state: int = 1) -> Script:
        """The first gradient of a process, with this digest of what it trains."""
        return self.add(at, "begins", task=task, incarnation=incarnation, state=state, at=at)

    def saved(self, at: float, task: str, path: str | None, seconds: float = 0.1, **fields: Any) -> Script:
        """A save by a CheckpointManager, or with `restores=True` a restore; `fields` replace what else it says."""
        event = "restore" if fields.pop("restores", False) else "save"
        kind = f"tf.train.{'Checkpoint.restore' if event == 'restore' else 'CheckpointManager.save'}"
        told: dict[str, Any] = {
            "bytes": None,
            "failed": None,
            "unfinished": False,
            "asynchronous": None,
            "step": 0,
            "incarnation": 0,
        }
        told |= {"kind": kind, **fields}
        return self.add(at + seconds, event, task=task, path=path, at=at, seconds=seconds, **told)

    def exit(self, t: float, task: str, code: int = 0, incarnation: int = 0, *, asked: bool = False) -> Script:
        """The end of a process."""
        name = {-9: "SIGKILL"}.get(code)
        return self.add(t, "exit", task=task, incarnation=incarnation, code=code, signal=name, asked=asked)

    def fails(self, t: float, task: str, kind: str = "UnavailableError", *, planned: bool = False) -> Script:
        """A failure of the first process of a task."""
        return self.add(
            t + 0.002, "error", task=task, incarnation=0, kind=kind, message="gone\nmore", at=t, planned=planned
        )

    def fired(self, t: float, fault: Event, **effect: Any) -> Script:
        """The proof of a fault."""
        trigger = next(f"{key}={fault[key]}" for key in ("step", "time", "log") if key in fault)
        tasks = fault.get("task", [])
        return self.add(t, "fired", fault=fault["id"], kind=fault["kind"], tasks=tasks, trigger=trigger, effect=effect)

    def undone(self, t: float, fault: Event, problem: str | None = None) -> Script:
        """The end of a fault."""
        tasks = fault.get("task", [])
        return self.add(t, "undone", fault=fault["id"], kind=fault["kind"], tasks=tasks, effect={}, problem=problem)

    def save(self, directory: Path, *plan: Event) -> Path:
        """Write the journal and the plan as a run does; returns the directory."""
        directory.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(event) + "\n" for event in self.events)
        (directory / "journal.jsonl").write_text(lines)
        if plan:
            (directory / "plan.json").write_text(json.dumps({"seed": 0, "fault": list(plan)}))
        return directory


def killed() -> Script:
    """Two workers; worker 1 is killed at its step 2, worker 0 fails 0.5 s later, both begin anew and take 2 steps."""
    script = Script("worker:0", "worker:1")
    for number, task in enumerate(("worker:0", "worker:1")):
        script.add(0.5, "hello", task=task, incarnation=0, pid=100 + number)
        script.begins(0.9, task).begins(3.9, task, 1)
    script.steps("worker:0", [1.0, 2.0]).steps("worker:1", [1.0, 2.0])
    script.add(2.001, "gate", task="worker:1", incarnation=0, gate="step:2", at=2.0)
    script.exit(2.1, "worker:1", -9, asked=True).fired(2.2, KILL, ended={"worker:1": "SIGKILL"})
    script.fails(2.5, "worker:0").exit(2.6, "worker:0", 1)
    for task in ("worker:0", "worker:1"):
        script.add(3.0, "restart", task=task, incarnation=1, reason="policy job, 1 of 1")
        script.add(3.05, "hello", task=task, incarnation=1, pid=200)
    script.undone(3.1, KILL)
    script.steps("worker:0", [4.0, 4.5], 1).steps("worker:1", [4.1, 4.6], 1)
    return script.exit(5.0, "worker:0", 0, 1).exit(5.1, "worker:1", 0, 1)
