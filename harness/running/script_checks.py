"""What can be asked of an unmodified script, and what cannot yet."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.evidence.independence import Touch
from harness.evidence.trace import RunTrace
from harness.running.disturbance import RECORD, Disturbance
from harness.running.interrupt import Interrupting
from harness.running.reference import Venue, undisturbed
from harness.running.reference_request import ReferenceRequest
from harness.subject.program import Program
from harness.subject.script import Script
from harness.subject.strategies import StrategyCase
from simulator import LockstepError, RunFailed, UsageError
from simulator.agent.places import place
from simulator.faults import Fault

_KINDS = ("mirrored", "central_storage", "multi_worker", "parameter_server")


def ready(
    program: Program,
    case: StrategyCase,
    changes: Interrupting | Disturbance | None,
    *,
    prove: bool | None,
    reference: str = "cpu",
) -> Program:
    """The program, which knows what it stands for as its own reference if it is a script.

    Args:
        program: what is to be run.
        case: the strategy.
        changes: what disturbs the run.
        prove: whether its step is to be proved; None where nobody has asked.
        reference: where its reference is to run.

    Raises:
        UsageError: a script under this strategy, with faults of files that nobody sees, or proved.
    """
    if program.script is None:
        return program
    instead = "verify the training as a function, FILE.py:FUNCTION, with `record`"
    if case.kind not in _KINDS:
        raise UsageError(
            f"scripts are verified under {', '.join(_KINDS)}, and {case.name} is another strategy; {instead}"
        )
    if case.hardware.startswith("tpu"):
        raise UsageError(f"scripts are verified on CPU devices and GPUs, not on a {case.hardware}; {instead}")
    if reference != "cpu":
        raise UsageError(f"a script's reference runs on a CPU; leave out --reference, or {instead}")
    if isinstance(changes, Interrupting) and changes.resume_case.name != case.name:
        raise UsageError(
            f"a script builds its strategy itself, so that it cannot resume under {changes.resume_case.name}; leave "
            "out --resume-strategy, or " + instead
        )
    for fault in () if not isinstance(changes, Disturbance) else changes.plan.faults:
        _check_files(fault)
    if prove:
        raise UsageError(f"what a script does is not proved from its graphs; {instead}")
    cluster = (case.name, case.replicas, case.workers, case.ps)
    return program.under(*cluster, disturbed=changes is not None, device_type=case.device_type)


def _check_files(fault: Fault) -> None:
    """Fail if a fault is about a directory that a script does not have, or about the disk below its private view."""
    directory = getattr(fault, "directory", None)
    if directory == RECORD:
        raise UsageError(
            f"a script has no record.directory; have directory of {fault.kind} name where it saves its checkpoints"
        )
    if directory is not None and fault.kind == "disk_full":
        raise UsageError(
            "what a script writes is kept apart from the disk of its directory, so that this cannot be filled; leave "
            "out directory of disk_full, which then limits the size of each file"
        )


def check_whole(program: Program, reference: RunTrace, changes: Interrupting | Disturbance | None) -> None:
    """Fail before a script is disturbed whose reference was ended before its own end, with which runs are aligned.

    Raises:
        UsageError: it takes more steps than are judged.
    """
    first = reference.clients[0]
    if program.script is not None and changes is not None and first.counters.cut is not None:
        raise UsageError(
            f"{program.name} takes more than {first.counters.cut} steps, and a script that is killed and started again "
            "is judged to its end; give a larger --first, or have it take fewer steps"
        )


def own_trace(program: Program, venue: Venue) -> RunTrace | None:
    """What a script leaves that follows no run; None where it cannot be run so."""
    with contextlib.suppress(LockstepError):
        return undisturbed(program, venue, ReferenceRequest()).trace
    return None


def check_apart(program: str, runs: Mapping[str, Sequence[Touch]]) -> None:
    """Fail if two runs of a script have written the same file where they have no view of their own, as below `/tmp`.

    Args:
        program: its name.
        runs: what each run has touched, by what a sentence calls the run.

    Raises:
        UsageError: names the file and the runs.
    """
    writers: dict[str, str] = {}
    for run, touches in runs.items():
        for touch in touches:
            if touch.writes and writers.setdefault(touch.path, run) != run:
                raise UsageError(
                    f"{program}: {writers[touch.path]} and {run} have both written {touch.path}, where runs cannot be "
                    "kept apart. Have the script write below its own directory, or into a directory of tempfile's"
                )


def line_under_way(failure: RunFailed, script: Script) -> str:
    """The line of the script that was under way."""
    cause = failure.root_cause
    own = rf'File "({re.escape(script.path)}(?:, cell \d+)?)", line (\d+)'
    lines = re.findall(own, f"{cause.traceback}\n{cause.message}")
    return f" at {place(Path(lines[-1][0]).name, int(lines[-1][1]))}" if lines else ""
