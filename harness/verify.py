"""One call from a program to a verdict."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _lockstep.verdicts import announce, on_verdict
from harness.assumed_counts import differs_by_one, differs_whatever
from harness.attempts import JudgedAttempt
from harness.culprits import is_wanted, with_culprit, without_watching
from harness.evidence.independence import read_touched, reads_back
from harness.evidence.parts import INTERRUPTED, TRACES, read_parts
from harness.evidence.reference import Reference
from harness.judgement import judge, task_summaries
from harness.judging.assumptions import with_assumptions
from harness.judging.native_scale import NativeRun
from harness.judging.replica_batches import met_on_mesh, with_data
from harness.judging.verdict import Verdict
from harness.phases import phase
from harness.proofs import WaitForProof, is_asked, proved
from harness.relations import Proof
from harness.request import Tier, VerifyRequest
from harness.run_directory import opened_run
from harness.running.cache import check_cache
from harness.running.disturbance import Disturbance
from harness.running.interpreter import Interpreter
from harness.running.interrupt import Interrupting
from harness.running.machine_files import on_machines, placed_program
from harness.running.observe import check_hardware, disturbed_by
from harness.running.script_checks import check_apart, ready
from harness.saved_run import save_run
from harness.subject.machines import OnMachines
from harness.subject.program import Program
from harness.subject.script_constants import divisions_by
from harness.subject.strategies import StrategyCase, strategy_case
from harness.verdicts import verdict_of
from simulator import FaultPlan, LockstepError
from simulator.arguments import check_names
from simulator.machines.local.host import cores

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in typing from Python 3.11 on

__all__ = ["Tier", "check_hardware", "judge", "on_verdict", "task_summaries", "verify"]

_SEED = 20
_PROOF_SECONDS_MIN, _PROOF_SHARE = 30.0, 2.0
"""A proof that nobody asked for may take so many seconds, or so much of what the verdict took before it."""


def verify(
    program: Callable[..., Any] | str | Sequence[str] | Program,
    strategy: str | StrategyCase,
    *,
    tier: Tier = "derived",
    interrupt_at: int | None = None,
    resume_strategy: str | StrategyCase | None = None,
    faults: FaultPlan | None = None,
    restarts: int | None = None,
    restart_policy: str | None = None,
    forced: bool = False,
    explain: bool | None = None,
    prove: bool | None = None,
    hardware: str = "cpu",
    reference: str = "cpu",
    reference_python: str | Path | Interpreter | None = None,
    network: str | None = None,
    timeout: float = 120.0,
    seed: int = _SEED,
    out: str | Path | None = None,
    stream: bool = False,
    **machines: Unpack[OnMachines],
) -> Verdict:
    """Run a program under a strategy and under the default strategy, and judge whether the numbers agree.

    Args:
        program: `train(strategy, record)`, or `FILE.py:FUNCTION`, or an unmodified script, `["python", "train.py"]`.
        strategy: a name such as `mirrored-2`, see `lockstep strategies`.
        tier: `derived` allows for rounding, by bounds from perturbed reruns; `exact`: every value is representable.
        interrupt_at: kill all tasks right after this step, from 1, and start again with the same `record.directory`.
        resume_strategy: start it again under this strategy instead of the same one.
        faults: what goes wrong. What fails is started again, each part judged. Checkpoints are in `record.directory`.
        restarts: restarts that a run with faults may have; by default those that its faults can cause, and three more.
        restart_policy: what a failure restarts, as of `Cluster`.
        forced: accepted, and always so: each step is judged by itself, from the run's own variables.
        explain: make more runs to say why (`Verdict.culprit`); None: where it is inconsistent or chaotic; True: always.
        prove: infer whether the step is right for every batch; None: within some seconds, unless LOCKSTEP_PROVE is 0.
        hardware: `cpu`, `gpu`, `gpu-simulated`, `tpu` or `tpu-rehearsed`.
        reference: where it runs: `cpu`, or `device`, one of the strategy's; a note then tells of that on the CPU.
        reference_python: the Python of another environment that makes the reference, such as of an older TensorFlow.
        network: of a strategy with several tasks: `loopback`, or `namespaces` for a host of its own for each task.
        timeout: seconds for each of the runs, with all its restarts.
        seed: given to Python, NumPy, TensorFlow and Keras before the start.
        out: keep traces, logs and the verdict in this directory, which holds nothing else than maybe an earlier run.
        stream: copy the tasks' output to stderr while they run.
        **machines: `machines`, `place`, `files` and `machines_python`: where the run's tasks are, as of `Cluster`.

    Returns:
        A `Verdict`: true when consistent; it abstains where that cannot be known. `str` of it explains.

    Raises:
        UsageError: something that does not exist, a directory with something else in it, or nothing was reported.
        HostsUnavailable, MachinesUnavailable, MissingHardware, PrivateFilesUnavailable: a machine lacks what is needed.
        SharedState: a run has read a file that another one of this verification had written.
        RunFailed: a task crashed, hung or vanished, or a fault did not happen.
    """
    case, plan = _case(strategy, hardware, network, machines), Disturbance.of(faults, restarts, restart_policy)
    asked = VerifyRequest(tier, forced, explain, prove, seed, timeout, stream, out is not None, reference)
    changes = disturbed_by(interrupt_at, resume_strategy, plan, case, timeout)
    return _told(_verified_in(out, Program.of(program), case, changes, asked.on(case, reference_python)))


def _case(strategy: str | StrategyCase, hardware: str, network: str | None, machines: OnMachines) -> StrategyCase:
    """The strategy's case, if nothing is asked of machines that is none of theirs, such as a misspelt argument."""
    check_names("verify", machines, OnMachines.__annotations__, inspect.signature(verify).parameters)
    return strategy_case(strategy, hardware, network, machines)


def _verified_in(
    out: str | Path | None,
    program: Program,
    case: StrategyCase,
    changes: Interrupting | Disturbance | None,
    asked: VerifyRequest,
) -> Verdict:
    asked.check()
    check_cache()
    under_test = ready(program, case, changes, prove=asked.prove, reference=asked.reference)
    placed_program(under_test, case, disturbed=changes is not None)
    with on_machines(case), opened_run(out) as directory:
        return _verified(under_test, case, changes, directory, asked)


def _verified(
    program: Program,
    case: StrategyCase,
    changes: Interrupting | Disturbance | None,
    directory: Path,
    asked: VerifyRequest,
) -> Verdict:
    """The verdict on one run, which leaves what it recorded in `directory`."""
    attempt = JudgedAttempt(program, case, changes, directory, asked, time.monotonic())
    with contextlib.ExitStack() as stack:
        proof = _Proof(attempt, stack)
        verdict, reference = verdict_of(attempt, proof.begin)
        if reference is None:
            if asked.keep:
                save_run(directory, verdict, None)
            return verdict
        if program.script is not None:
            verdict, reference = _of_script(verdict, attempt, reference)
        return _explained(verdict, attempt, reference, proof)


class _Proof:
    """What is proved of the step, where that was asked for: begun beside the reference if it may, or else at the end.

    Args:
        attempt: whose step it is.
        stack: ends what was begun.
    """

    def __init__(self, attempt: JudgedAttempt, stack: contextlib.ExitStack) -> None:
        self._attempt, self._stack, asked = attempt, stack, attempt.asked
        self.is_asked = is_asked(asked.prove if asked.python is None else asked.prove or False)
        self._begun: WaitForProof | None = None

    def begin(self) -> None:
        """Have the step traced, unless the two would meet: on a device, or in a file that the program reads back."""
        if not self.is_asked or self._attempt.case.device_kind != "cpu" or cores() == 1:
            return
        if not reads_back(read_touched(self._attempt.directory / TRACES)):
            self._begun = self._tracing()

    def of(self, verdict: Verdict) -> Proof:
        """The proof, with what the examples of the run say of its conditions."""
        asked = self._attempt.asked
        past = time.monotonic() - self._attempt.began
        seconds = asked.timeout if asked.prove else min(asked.timeout, max(_PROOF_SECONDS_MIN, _PROOF_SHARE * past))
        found = (self._begun or self._tracing())(seconds, refutes=verdict.can_be_refuted)
        parts = read_parts(self._attempt.directory)
        held_against = met_on_mesh if self._attempt.case.family.on_mesh else with_data
        return held_against(found, [*(part.trace for part in parts.earlier), parts.last])

    def _tracing(self) -> WaitForProof:
        attempt = self._attempt
        return self._stack.enter_context(proved(attempt.program, attempt.case, **attempt.asked.of_reference))


def _explained(verdict: Verdict, attempt: JudgedAttempt, reference: Reference, proof: _Proof) -> Verdict:
    """The verdict with what more runs say of it; it is kept where that was asked for."""
    program, case, directory, asked = attempt.program, attempt.case, attempt.directory, attempt.asked
    # What a worker does for a coordinator cannot be watched from here.
    apart = (program.script is not None and case.ps) or asked.python is not None
    if is_wanted(verdict, asked.explain):
        verdict = without_watching(verdict, directory, reference)
        if attempt.changes is None and not apart and verdict.looked is None:
            verdict = with_culprit(verdict, program, case, directory, reference, **asked.of_reference)
    verdict = _beside_others(verdict, attempt)
    if proof.is_asked:
        phase("inferring whether the step is right for every batch")
        verdict = verdict.with_proof(proof.of(verdict))
    verdict = dataclasses.replace(verdict, seconds=time.monotonic() - attempt.began)
    if asked.keep:
        save_run(directory, verdict, reference)
    return verdict


def _of_script(verdict: Verdict, attempt: JudgedAttempt, reference: Reference) -> tuple[Verdict, Reference]:
    """The verdict on a script, taken back where its reference rests on what may be otherwise, and by what it is."""
    program, case, directory = attempt.program, attempt.case, attempt.directory
    touched = read_touched(directory / TRACES, directory / INTERRUPTED)
    check_apart(program.name, {**reference.touched, f"the run under {case.name}": touched})
    assert program.script is not None
    by = reference

    @functools.cache
    def natively() -> NativeRun:
        nonlocal by
        found, by_one = attempt.natively(verdict, reference)
        by = by if found.verdict is None else by_one
        return found

    told: dict[str, Any] = {
        "returned": case.ps > 0
        and any(each["incarnation"] and task.startswith("worker") for task, each in verdict.tasks.items()),
        "updates": program.script.updates,
        "alone": attempt.alone,
        "by_one_worker": attempt.by_one_worker,
        "natively": natively,
        "whatever": functools.partial(differs_whatever, attempt),
        "by_one": functools.partial(differs_by_one, attempt),
        "divided": functools.partial(divisions_by, program.script, case.replicas),
    }
    again = read_parts(directory) if attempt.changes is not None else None
    return with_assumptions(verdict, attempt.first, reference.trace, case.replicas, again, **told), by


def _beside_others(verdict: Verdict, attempt: JudgedAttempt) -> Verdict:
    """The verdict; one by a reference on the device has a note of what that on the CPU says.

    So has one that is inconsistent with a reference of another environment, of what one of this environment says.
    """
    asked = attempt.asked
    on_device = asked.reference == "device"
    if not on_device and (asked.python is None or verdict.outcome != "inconsistent"):
        return verdict
    where = "on a CPU" if on_device else "of the run's own environment"
    try:
        other, _ = attempt.by_one_replica(verdict.tasks, beside=True)
    except LockstepError as error:  # the verdict does not rest on it
        note = f"there is no reference {where} beside it: {str(error).splitlines()[0]}"
    else:
        ratio = "" if other.worst_ratio is None else f", worst ratio {other.worst_ratio:.2g}"
        note = f"against the reference {where} the run is {other.outcome}{ratio}"
    return dataclasses.replace(verdict, notes=(*verdict.notes, note))


def _told(verdict: Verdict) -> Verdict:
    announce(verdict)
    return verdict
