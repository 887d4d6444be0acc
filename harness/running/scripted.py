"""What can be asked of an unmodified script, and what cannot yet."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from harness.evidence.independence import Touch
from harness.evidence.trace import RunTrace
from harness.running.reference import reference_of
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator import LockstepError, UsageError

__all__ = ["check_apart", "native_traces", "ready"]

_KINDS = ("mirrored", "multi_worker")


def ready(program: Program, case: StrategyCase, *disturbed: object, forced: bool, prove: bool | None) -> Program:
    """The program, which knows what it stands for as its own reference if it is a script.

    Args:
        program: what is to be run.
        case: the strategy.
        disturbed: by what, each None for nothing.
        forced: whether the reference is to follow the run.
        prove: whether its step is to be proved; None where nobody has asked.

    Raises:
        UsageError: under this strategy, under faults or interrupted, forced, or proved.
    """
    if program.script is None:
        return program
    instead = "verify the training as a function, FILE.py:FUNCTION, with `record`"
    if case.kind not in _KINDS:
        raise UsageError(
            f"scripts are verified under {' and '.join(_KINDS)}, and {case.name} is another strategy; {instead}"
        )
    if case.hardware != "cpu":
        raise UsageError(f"scripts are verified on CPU devices, not on a {case.hardware}; {instead}")
    if any(each is not None for each in disturbed):
        raise UsageError(
            f"a script cannot be verified under faults or interrupted; {instead}, or see what becomes of it with "
            "`lockstep run`"
        )
    if forced:
        raise UsageError(f"a script's reference cannot be set to the run's variables after each step; {instead}")
    if prove:
        raise UsageError(f"what a script does is not proved from its graphs; {instead}")
    return program.under(case.name, case.replicas, case.workers)


def native_traces(program: Program, *, seed: int, timeout: float) -> list[RunTrace]:
    """What a script leaves as on one device, with a batch for one replica: of one worker's data, and of all.

    Args:
        program: the script.
        seed: as of `verify`.
        timeout: as of `verify`.

    Returns:
        One trace or two, and none where it cannot be run so.
    """
    assert program.script is not None
    found = []
    for pipelines in dict.fromkeys((program.script.workers, 1)):
        with contextlib.suppress(LockstepError):
            alone = program.alone(pipelines)
            found.append(reference_of(alone, seed=seed, perturbed=False, timeout=timeout).trace)
    return found


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
