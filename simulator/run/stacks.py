"""Tasks that hang: their failure, and their Python stacks, asked for with a signal that each agent answers from C."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from simulator.errors import TaskError
from simulator.journal.journal import Journal
from simulator.run.task import Task


def python_stacks(tasks: Iterable[Task], changed: threading.Condition) -> dict[str, str]:
    """Stacks of every thread of every living task; a program that would die of the signal is left alone."""
    living = [task for task in tasks if task.alive]
    for task in living:
        task.ask_stacks()

    def complete(task: Task) -> bool:
        # faulthandler ends with the main thread's stack, whose outermost frame is the forkserver's.
        text = task.stacks_path.read_text(errors="replace") if task.stacks_path.exists() else ""
        return text.endswith("in <module>\n") or not task.alive

    deadline = time.monotonic() + 2.0
    with changed:
        while time.monotonic() < deadline and not all(complete(task) for task in living):
            changed.wait(0.02)
    unknown = "(no answer: the process is stopped, or deaf to signals)"
    return {
        task.name: (task.stacks_path.read_text(errors="replace") or unknown) if task.stacks_path.exists() else unknown
        for task in living
    }


def fail_hanging(clients: Sequence[Task], timeout: float, changed: threading.Condition, journal: Journal) -> None:
    """Fail each of these that has not finished, although the run has had all its seconds."""
    now = time.monotonic()
    half = {task.name: task.half_said for task in clients if not task.finished}
    with changed:
        for task in clients:
            if not task.finished:
                said = f"last announced step {task.steps}" if task.steps else "no step was announced"
                text = f"did not finish within {timeout:g} s ({said}){half.get(task.name, '')}"
                task.error = TaskError(task.name, "Hang", text, at=now)
                journal.write("hang", task=task.name)
