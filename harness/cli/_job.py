"""Runs the job of `lockstep run`, and shows its outcome as text and as data."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.cli._progress import Progress
from harness.cli._saved_job import Job, make_place, renew_place, save_job
from harness.report.incarnations import ProcessHistory, described, histories_of, warnings_of
from harness.report.timeline import Recovery, Timeline, read_timelines, recovery_of
from simulator import Cluster, FaultPlan, LockstepError, RunFailed, RunResult, TaskResult, UsageError
from simulator.out import NotKept
from simulator.results import PlannedFault


@dataclasses.dataclass(frozen=True)
class JobOutcome:
    """What came of a job.

    Attributes:
        result: its outcome, if there is one.
        failure: how it failed, if it did.
        not_kept: why that could not be written where it was wanted, if so.
        recovery: what became of it after an interruption, if there was one.
        timeline: of the run, if its journal could be written.
        data: all of it.
    """

    result: RunResult | None
    failure: LockstepError | None
    not_kept: NotKept | None
    recovery: Recovery | None
    data: dict[str, Any]
    timeline: Timeline | None = None


def carry_out(cluster: Cluster, job: Job, plan: FaultPlan, *, out: Path | None, quiet: bool = False) -> JobOutcome:
    """Run the job to its end.

    Args:
        cluster: what carries it out, and keeps others out of `out`.
        job: what to run.
        plan: of its faults, expanded.
        out: where job and outcome are written, in place of earlier ones.
        quiet: whether nothing is said meanwhile.

    Raises:
        UsageError: the command cannot be run.
        NotKept: nothing can be written there, and so nothing was run.
    """
    result: RunResult | None = None
    failure: LockstepError | None = None
    not_kept: NotKept | None = None
    if out is not None:
        make_place(out)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(cluster)
        except UsageError:
            raise
        except LockstepError as error:
            return JobOutcome(None, error, None, None, as_json(job.command, str(plan.topology), None, error, plan))
        if out is not None:
            renew_place(out)
            # What is wanted is there already if the run is interrupted.
            save_job(out, job, plan, {"topology": str(plan.topology), "ended_well": None})
        try:
            result = _joined(cluster, job, quiet=quiet)
        except UsageError:
            raise
        except RunFailed as error:
            result, failure = error.result, error
        except LockstepError as error:
            failure = error
        timeline = None if result is None else _timeline(result)
        recovery = None if timeline is None else recovery_of(timeline)
        data = as_json(job.command, str(plan.topology), result, failure, plan, recovery)
        try:
            if out is not None:
                save_job(out, job, plan, data)
        except NotKept as error:
            not_kept = error
    return JobOutcome(result, failure, not_kept, recovery, data, timeline)


def _joined(cluster: Cluster, job: Job, *, quiet: bool) -> RunResult:
    with (
        Progress(quiet=quiet) as progress,
        cluster.start_command(job.command, cwd=job.cwd, steps=job.steps) as started,
    ):
        progress.follow(started)
        return started.join()


def _timeline(result: RunResult) -> Timeline | None:
    with contextlib.suppress(LockstepError):  # a journal that could not be written has failed the run already
        return read_timelines(result.directory)[0]
    return None


def counted_by(result: RunResult) -> list[str]:
    """The ways in which steps were counted, none twice."""
    return list(dict.fromkeys(task.counted_by for task in result.values() if task.counted_by))


def summary(
    result: RunResult, plan: FaultPlan | None = None, recovery: Recovery | None = None, steps: str = "auto"
) -> str:
    """One line for each task, each of its incarnations if there were several, each fault and each link condition.

    Then whether it recovered, lost packets, and in what way steps were counted; `steps` is the way asked for.
    """
    lines = []
    histories = _histories(result)
    killed = {name: fault.name for fault in result.faults for name in fault.ended}
    for name, task in result.items():
        left = f" with exit code {task.exit}" if task.exit is not None and task.exit >= 0 else ""
        end = (
            f"ended by fault {killed[name]}{left}" if name in killed else "stopped by Lockstep" if task.stopped else ""
        )
        code = "its end is not known" if task.exit is None else f"exit code {task.exit}"
        told = [end or task.signal or code] + ([f"{task.steps} steps"] if task.counted_by else [])
        if task.loss is not None:
            told.append(f"loss {task.loss:.6g}")
        if any(not device.startswith("cpu:") for device in task.devices):
            told.append(f"on {'; '.join(task.devices)}")
        if task.incarnation:
            told.append(f"incarnation {task.incarnation}")
        lines.append(f"  {name}: {', '.join(told)}")
        lines += [f"    {line}" for line in described(histories[name])]
    ways = counted_by(result)
    for fault in result.faults:
        what = "struck" if fault.fired else "did not strike"
        lines.append(f"fault {fault.name}: {' '.join(filter(None, (fault.kind, what, fault.where)))} at {fault.when}")
    lines += [] if recovery is None else [recovery.text]
    lines += [f"link: {condition}" for condition in _conditions(plan)]
    if packets := sum(link.packets for link in result.links):
        lines.append(f"packets: {packets}, of which {sum(link.lost for link in result.links)} were lost")
    if ways or not any(process.steps for task in result.values() for process in task.incarnations):
        lines.append(f"steps: counted by {' and '.join(ways)}" if ways else f"steps: {_uncounted(steps)}")
    lines += [f"warning: {text}" for text in (*warnings_of(histories), *_strangers(result))]
    return "\n".join(lines)


def _uncounted(steps: str) -> str:
    if steps == "auto":
        return "none was counted (of a training with TensorFlow, or by simulator.step())"
    return f"none seen of the kind that --steps {steps} counts alone"


def _histories(result: RunResult) -> dict[str, tuple[ProcessHistory, ...]]:
    return histories_of({name: task.incarnations for name, task in result.items()})


def _strangers(result: RunResult) -> list[str]:
    """That tasks which have trained have not exchanged a byte, as far as that is known."""
    trained = [name for name, task in result.items() if task.steps and not name.startswith("evaluator")]
    between = [link for link in result.links if link.src in result and link.dst in result and link.src != link.dst]
    met = any(link.bytes or link.packets for link in between) if result.met is None else result.met
    if met or len(trained) < 2 or (result.met is None and not result.links):
        return []
    remedy = "build tf.distribute.MultiWorkerMirroredStrategy before anything else, which reads TF_CONFIG"
    seen = f"{', '.join(trained)} have made steps, and no connection of one to another was seen"
    return [f"{seen}: if each shall not train alone, {remedy}"]


def _conditions(plan: FaultPlan | None) -> list[str]:
    return [] if plan is None else [str(link) for link in plan.links]


def as_json(
    command: Sequence[str],
    topology: str | None,
    result: RunResult | None,
    error: LockstepError | None,
    plan: FaultPlan | None = None,
    recovery: Recovery | None = None,
) -> dict[str, Any]:
    """The outcome as data; the keys are the same for every outcome."""
    cause = error.root_cause if isinstance(error, RunFailed) else None
    histories = {} if result is None else _histories(result)
    return {
        "command": list(command),
        "topology": topology,
        "ended_well": error is None,
        "root_cause": cause and {"task": cause.task, "kind": cause.kind, "message": cause.message},
        "error": None if error is None else str(error),
        "steps_counted_by": [] if result is None else counted_by(result),
        "tasks": {} if result is None else {name: _task(task, histories[name]) for name, task in result.items()},
        "faults": [] if result is None else [_fault(fault) for fault in result.faults],
        "recovery": None if recovery is None else recovery.as_data,
        "links": [] if result is None else msgspec.to_builtins(result.links),
        "conditions": _conditions(plan),
        "warnings": [*warnings_of(histories), *([] if result is None else _strangers(result))],
        "seconds": None if result is None else round(result.seconds, 3),
    }


def _fault(fault: PlannedFault) -> dict[str, Any]:
    told = dataclasses.asdict(fault)
    del told["at"]  # of a clock that says nothing to a reader
    return told


def _task(task: TaskResult, history: Sequence[ProcessHistory]) -> dict[str, Any]:
    return {
        "exit": task.exit,
        "signal": task.signal,
        "steps": task.steps,
        "stopped": task.stopped,
        "incarnation": task.incarnation,
        "machine": task.machine,
        "loss": _number(task.loss),
        "devices": list(task.devices),
        "error": None if task.error is None else str(task.error),
        "incarnations": [
            {
                "number": each.number,
                "machine": each.machine,
                "exit": each.exit,
                "signal": each.signal,
                "steps": each.steps,
                "stopped": each.stopped,
                "loss": _number(each.loss),
                "restored": None if chapter.restored is None else dataclasses.asdict(chapter.restored),
                "lost": chapter.lost,
            }
            for each, chapter in zip(task.incarnations, history, strict=True)
        ],
    }


def _number(loss: float | None) -> float | str | None:
    """As verdicts have it: JSON knows no infinity, and nothing that is not a number."""
    return loss if loss is None or math.isfinite(loss) else str(loss)
