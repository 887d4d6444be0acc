"""Runs the job of `lockstep run`, and shows its outcome as text and as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec

from harness.cli._progress import Progress
from harness.cli._saved_job import Job
from simulator import Cluster, LockstepError, RunFailed, RunResult, UsageError

__all__ = ["as_json", "carry_out", "counted_by", "summary"]


def carry_out(cluster: Cluster, job: Job) -> tuple[RunResult | None, LockstepError | None]:
    """Run the job to its end; returns its outcome, if there is one, and how it failed, if it did.

    Raises:
        UsageError: the command cannot be run.
    """
    try:
        with (
            cluster,
            Progress() as progress,
            cluster.start_command(job.command, cwd=job.cwd, steps=job.steps) as started,
        ):
            progress.follow(started)
            return started.join(), None
    except UsageError:
        raise
    except RunFailed as error:
        return error.result, error
    except LockstepError as error:
        return None, error


def counted_by(result: RunResult) -> list[str]:
    """The ways in which steps were counted, none twice."""
    return list(dict.fromkeys(task.counted_by for task in result.values() if task.counted_by))


def summary(result: RunResult) -> str:
    """One line for each task and each fault, lost packets, and in what way steps were counted."""
    lines = []
    for name, task in result.items():
        end = "stopped by Lockstep" if task.stopped else task.signal or f"exit code {task.exit}"
        told = [end] + ([f"{task.steps} steps"] if task.counted_by else [])
        if task.incarnation:
            told.append(f"incarnation {task.incarnation}")
        lines.append(f"  {name}: {', '.join(told)}")
    ways = counted_by(result)
    for fault in result.faults:
        what = "struck" if fault.fired else "did not strike"
        lines.append(f"fault {fault.name}: {fault.kind} {what} {fault.where} at {fault.trigger}")
    if packets := sum(link.packets for link in result.links):
        lines.append(f"packets: {packets}, of which {sum(link.lost for link in result.links)} were lost")
    unknown = "not known (the program neither imported TensorFlow and trained, nor called simulator.step())"
    lines.append(f"steps: counted by {' and '.join(ways)}" if ways else f"steps: {unknown}")
    return "\n".join(lines)


def as_json(
    command: Sequence[str], topology: str, result: RunResult | None, error: LockstepError | None
) -> dict[str, Any]:
    """The outcome as data; the keys are the same for every outcome."""
    cause = error.root_cause if isinstance(error, RunFailed) else None
    return {
        "command": list(command),
        "topology": topology,
        "ended_well": error is None,
        "root_cause": cause and {"task": cause.task, "kind": cause.kind, "message": cause.message},
        "error": None if error is None else str(error),
        "steps_counted_by": [] if result is None else counted_by(result),
        "tasks": {} if result is None else {name: _task(task) for name, task in result.items()},
        "faults": [] if result is None else [dataclasses.asdict(fault) for fault in result.faults],
        "links": [] if result is None else msgspec.to_builtins(result.links),
        "seconds": None if result is None else round(result.seconds, 3),
    }


def _task(task: Any) -> dict[str, Any]:
    return {
        "exit": task.exit,
        "signal": task.signal,
        "steps": task.steps,
        "stopped": task.stopped,
        "incarnation": task.incarnation,
        "error": None if task.error is None else str(task.error),
        "incarnations": [
            {
                "number": each.number,
                "exit": each.exit,
                "signal": each.signal,
                "steps": each.steps,
                "stopped": each.stopped,
            }
            for each in task.incarnations
        ],
    }
