"""One call from a program to a verdict."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from _lockstep.verdicts import announce, on_verdict
from harness.asked import Asked, Tier
from harness.culprits import is_wanted, with_culprit
from harness.errors import Abstained, NothingObserved
from harness.evidence.independence import check_independent, read_touched
from harness.evidence.parts import INTERRUPTED, TRACES, Parts, read_parts
from harness.evidence.rebuilt import read_rebuilt
from harness.evidence.reference import Reference
from harness.judging.align.apart import none_judged
from harness.judging.alone import steps_alone
from harness.judging.closer import hides_more, is_open, is_plain, loses_sight
from harness.judging.closures_collected import updates_apart
from harness.judging.conditions import Condition, conditions_of
from harness.judging.course import course_of
from harness.judging.doubted import doubted
from harness.judging.environments import environments_of
from harness.judging.explain import closest
from harness.judging.explain import explain as explanation_of
from harness.judging.judge import Judged, judge_parts
from harness.judging.laws.protocol import Judgement
from harness.judging.resumed_script import worded
from harness.judging.shares import with_data
from harness.judging.unknown import not_finite
from harness.judging.verdict import Verdict
from harness.kept import kept_in
from harness.ledger import Ledger, aligned
from harness.proofs import is_asked, proved
from harness.running.coordinated import followed
from harness.running.disturbance import Disturbance
from harness.running.elsewhere import Interpreter
from harness.running.followed import following
from harness.running.forced import check_forcible, forced_reference
from harness.running.interrupt import Interrupting, run_twice
from harness.running.observe import check_hardware, disturbed_by, run_once
from harness.running.places import on_machines, placed_program
from harness.running.reference import cache_directory, reference_of
from harness.running.room import check_run_fits, files_beside
from harness.running.scripted import check_apart, check_whole, native_traces, ready
from harness.saved import save_run
from harness.subject.over import OnMachines
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, strategy_case
from simulator import FaultPlan, LockstepError, RunFailed, RunResult

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in typing from Python 3.11 on

__all__ = ["Tier", "check_hardware", "judge", "judge_left", "judged_run", "on_verdict", "task_summaries", "verify"]

_SEED = 20


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
        forced: set the reference's variables to those of the run after each step: each is then judged by itself.
        explain: make more runs to say why (`Verdict.culprit`); None: where it is inconsistent or chaotic; True: always.
        prove: infer from the step's graph whether it is right for every batch; not by default if LOCKSTEP_PROVE is 0.
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
        A `Verdict`: true when consistent; it abstains if two equal runs of the reference differ. `str` of it explains.

    Raises:
        UsageError: something that does not exist, a directory with something else in it, or nothing was reported.
        HostsUnavailable, MachinesUnavailable, MissingHardware, PrivateFilesUnavailable: a machine lacks what is needed.
        SharedState: a run has read a file that another one of this verification had written.
        RunFailed: a task crashed, hung or vanished, or a fault did not happen.
    """
    case, plan = strategy_case(strategy, hardware, network, machines), Disturbance.of(faults, restarts, restart_policy)
    asked = Asked(tier, forced, explain, prove, seed, timeout, stream, out is not None, reference)
    changes = disturbed_by(interrupt_at, resume_strategy, plan, case, timeout)
    return _told(_verified_in(out, Program.of(program), case, changes, asked.on(case, reference_python)))


def _verified_in(
    out: str | Path | None,
    program: Program,
    case: StrategyCase,
    changes: Interrupting | Disturbance | None,
    asked: Asked,
) -> Verdict:
    asked.check(changes)
    under_test = ready(program, case, changes, forced=asked.forced, prove=asked.prove, reference=asked.reference)
    placed_program(under_test, case, disturbed=changes is not None)
    with on_machines(case), kept_in(out) as directory:
        return _verified(under_test, case, changes, directory, asked)


def _verified(
    program: Program,
    case: StrategyCase,
    changes: Interrupting | Disturbance | None,
    directory: Path,
    asked: Asked,
) -> Verdict:
    """The verdict on one run, which leaves what it recorded in `directory`."""
    if _is_followed(program, case, changes, asked):
        return _followed_verdict(program, case, directory, asked)
    began, forced = time.monotonic(), asked.forced
    try:
        # One that follows the run is made of a program of which it is known that equal runs are equal.
        makes: dict[str, Any] = {"perturbed": asked.derived and not forced, "check": forced}
        beside = files_beside(cache_directory(), directory, len(case.clients), keep=asked.keep)
        reference = reference_of(program, **makes, **asked.makes(case), **asked.of_truth, beside=beside)
    except (Abstained, NothingObserved) as why:
        if program.script is None and isinstance(why, NothingObserved):
            raise
        return Verdict(program.name, case.name, (), tolerance=asked.tier, abstained=str(why), forced=forced)
    except RunFailed as failure:
        if program.script is None:
            raise
        # If it fails in the cluster as well, that is what is wrong with it.
        run_once(program, case, directory, **asked.of_run)
        why_not = f"the script runs under {case.name}, and fails as its own reference: {str(failure).splitlines()[0]}"
        return Verdict(program.name, case.name, (), tolerance=asked.tier, abstained=why_not)
    check_whole(program, reference.trace, changes)
    if forced:
        check_forcible(program.name, reference.trace)
        result = _run(program, case, None, directory, reference, **asked.of_run)
        reference = forced_reference(program, directory, reference, perturbed=asked.derived, **asked.of_reference)
        verdict = judge_left(program, case, None, directory, reference, result, time.monotonic() - began, forced=True)
    else:
        verdict = judged_run(program, case, changes, directory, reference, began, **asked.of_run)
        judged_as, verdict, reference = _followed(verdict, program, case, changes, reference, directory, asked)
        if is_open(verdict):
            verdict, reference = _made_sure(verdict, judged_as, case, reference, directory, asked)
        if program.script is not None:
            verdict = _of_script(verdict, program, case, directory, reference, asked, disturbed=changes is not None)
        elif asked.explain is not False and asked.derived and changes is None and asked.python is None:
            verdict, reference = _looked_closer(verdict, program, directory, reference, asked)
    return _explained(verdict, program, case, changes, directory, reference, asked)


def _is_followed(
    program: Program, case: StrategyCase, changes: Interrupting | Disturbance | None, asked: Asked
) -> bool:
    """Whether the reference of such a run follows it, step by step."""
    if changes is not None or asked.python is not None or asked.reference != "cpu" or case.rehearsed:
        return False
    return case.kind in ("default", "one_device", "mirrored", "central_storage", "multi_worker")


def _by_step(program: Program, case: StrategyCase, directory: Path, asked: Asked) -> tuple[Verdict, Reference]:
    """The verdict on a run each of whose steps one replica computes again, from what it had."""
    began = time.monotonic()
    result = run_once(program, case, directory, **asked.of_run, keeps=True)
    makes = {key: value for key, value in asked.makes(case).items() if asked.derived}
    with following(program, directory, case.name, **makes, **asked.of_reference) as followers:

        def judged(reference: Reference) -> Verdict:
            said: dict[str, Any] = {"tasks": task_summaries(result), "seconds": time.monotonic() - began}
            reference = dataclasses.replace(reference, tier=asked.tier)
            return judge(read_parts(directory), reference, program=program.name, forced=asked.forced, **said)

        reference = followers.plain()
        verdict = judged(reference)
        if asked.derived and is_open(verdict):
            reference = followers.with_noise(more=False)
            verdict = judged(reference)
        if asked.derived and is_open(verdict) and not is_plain(verdict):
            reference = followers.with_noise(more=True)
            verdict = judged(reference)
        return verdict, dataclasses.replace(reference, tier=asked.tier)


def _followed_verdict(program: Program, case: StrategyCase, directory: Path, asked: Asked) -> Verdict:
    try:
        verdict, reference = _by_step(program, case, directory, asked)
    except (Abstained, NothingObserved) as why:
        if program.script is None and isinstance(why, NothingObserved):
            raise
        return Verdict(program.name, case.name, (), tolerance=asked.tier, abstained=str(why), forced=asked.forced)
    except RunFailed as failure:
        if program.script is None or not failure.during:
            raise
        why_not = f"the script runs under {case.name}, and fails as its own reference: {str(failure).splitlines()[0]}"
        return Verdict(program.name, case.name, (), tolerance=asked.tier, abstained=why_not)
    if program.script is not None:
        verdict = _of_script(verdict, program, case, directory, reference, asked, disturbed=False)
    return _explained(verdict, program, case, None, directory, reference, asked)


def _explained(
    verdict: Verdict,
    program: Program,
    case: StrategyCase,
    changes: Interrupting | Disturbance | None,
    directory: Path,
    reference: Reference,
    asked: Asked,
) -> Verdict:
    """The verdict with what more runs say of it; it is kept where that was asked for."""
    # What a worker does for a coordinator cannot be watched from here.
    apart = (program.script is not None and case.ps) or asked.python is not None
    if changes is None and not apart and is_wanted(verdict, asked.explain):
        verdict = with_culprit(verdict, program, case, directory, reference, **asked.of_reference)
    verdict = _beside_others(verdict, program, case, directory, asked)
    if is_asked(asked.prove if asked.python is None else asked.prove or False):
        parts = read_parts(directory)
        runs = [*(part.trace for part in parts.earlier), parts.last]
        verdict = dataclasses.replace(verdict, proof=with_data(proved(program, case, **asked.of_reference), runs))
    if asked.keep:
        save_run(directory, verdict, reference)
    return verdict


def _of_script(
    verdict: Verdict,
    program: Program,
    case: StrategyCase,
    directory: Path,
    reference: Reference,
    asked: Asked,
    *,
    disturbed: bool,
) -> Verdict:
    """The verdict on a script, taken back where its reference rests on what may be otherwise."""
    touched = read_touched(directory / TRACES, directory / INTERRUPTED)
    check_apart(program.name, {**reference.touched, f"the run under {case.name}": touched})
    assert program.script is not None
    parts = read_parts(directory)
    first = parts.earlier[0].trace if parts.earlier else parts.last
    natives = native_traces(program, repeated=case.ps > 0 and updates_apart(first), **asked.of_truth)
    told: dict[str, Any] = {
        "follows": reference.follows,
        "returned": case.ps > 0 and any(read_rebuilt(directory)),
        "updates": program.script.updates,
    }
    again = parts if disturbed else None
    return doubted(verdict, first, reference.trace, case.replicas, natives, again, **told)


def _looked_closer(
    verdict: Verdict, program: Program, directory: Path, reference: Reference, asked: Asked
) -> tuple[Verdict, Reference]:
    """The verdict, and what it was judged by, after more runs where each step by itself shows more than the whole.

    Which steps are wrong, where a verdict is inconsistent and nothing explains it. Everything, where the training is
    chaotic: judged as a whole nothing could be wrong with it.
    """
    again = hides_more(verdict, reference)
    if not again and not loses_sight(verdict, reference):
        return verdict, reference
    began = time.monotonic()
    try:
        follower = forced_reference(program, directory, reference, perturbed=True, **asked.of_reference)
    except LockstepError as error:
        text = f"the steps could not be judged by themselves: {str(error).splitlines()[0]}"
        return dataclasses.replace(verdict, notes=(*verdict.notes, text)), reference
    parts = read_parts(directory)
    if again:
        alone = steps_alone(judge_parts(parts, follower).case)
        notes = tuple(dict.fromkeys((*verdict.notes, *follower.notes)))
        return dataclasses.replace(verdict, alone=alone, notes=notes), reference
    why = "rounding grows from step to step until it explains almost any value; so each step is judged by itself"
    follower = dataclasses.replace(follower, notes=(*follower.notes, why))
    said: dict[str, Any] = {"tasks": verdict.tasks, "seconds": verdict.seconds + time.monotonic() - began}
    return judge(parts, follower, program=program.name, forced=True, **said), follower


def _beside_others(verdict: Verdict, program: Program, case: StrategyCase, directory: Path, asked: Asked) -> Verdict:
    """The verdict; one by a reference on the device has a note of what that on the CPU says.

    So has one that is inconsistent with a reference of another environment, of what one of this environment says.
    """
    on_device = asked.reference == "device"
    if not on_device and (asked.python is None or verdict.outcome != "inconsistent"):
        return verdict
    kernels = on_device or case.computes_apart
    other = judge(
        read_parts(directory),
        reference_of(program, perturbed=asked.derived, kernels=kernels, **asked.of_reference),
        program=program.name,
        tasks=verdict.tasks,
        seconds=verdict.seconds,
        faults=verdict.faults,
    )
    ratio = "" if other.worst_ratio is None else f", worst ratio {other.worst_ratio:.2g}"
    where = "on a CPU" if on_device else "of the run's own environment"
    note = f"against the reference {where} the run is {other.outcome}{ratio}"
    return dataclasses.replace(verdict, notes=(*verdict.notes, note))


def _followed(
    verdict: Verdict,
    program: Program,
    case: StrategyCase,
    changes: Interrupting | Disturbance | None,
    reference: Reference,
    directory: Path,
    asked: Asked,
) -> tuple[Program, Verdict, Reference]:
    """The verdict on a coordinator's script by a reference whose workers began their data anew as those of the run."""
    closures = changes is not None and program.script is not None and case.ps
    options: dict[str, Any] = {"perturbed": asked.derived, **asked.of_truth}
    if not closures or (found := followed(verdict, program, directory, **options)) is None:
        return program, verdict, reference
    told, reference = found
    said: dict[str, Any] = {"tasks": verdict.tasks, "seconds": verdict.seconds, "faults": verdict.faults}
    return told, judge(read_parts(directory), reference, program=program.name, **said), reference


def _made_sure(
    verdict: Verdict, program: Program, case: StrategyCase, reference: Reference, directory: Path, asked: Asked
) -> tuple[Verdict, Reference]:
    """The verdict by all that can be known of the reference, where a first look does not end in consistency."""
    began, known, before = time.monotonic(), len(reference.perturbed), reference.before
    try:
        more = not is_plain(verdict)
        surer: dict[str, Any] = {"check": True, "more": more, **asked.makes(case)}
        surer_one = reference_of(program, perturbed=asked.derived, **surer, **asked.of_truth)
        told = tuple(dict.fromkeys((*reference.notes, *surer_one.notes)))
        reference = dataclasses.replace(surer_one, before=before, notes=told)
    except Abstained as why:
        nothing: dict[str, Any] = {"judgements": (), "explanation": None, "closest": None, "ledger": None}
        return dataclasses.replace(verdict, abstained=str(why), **nothing), reference
    _check_independent(program.name, verdict.strategy, directory, reference)
    if len(reference.perturbed) == known and reference.threads is None:
        return verdict, reference
    again = judge(
        read_parts(directory),
        reference,
        program=program.name,
        tasks=verdict.tasks,
        seconds=verdict.seconds + time.monotonic() - began,
        faults=verdict.faults,
    )
    return again, reference


@contextlib.contextmanager
def _independent(program: str, case: StrategyCase, directory: Path, reference: Reference) -> Iterator[None]:
    """Around the run to be judged: it reads nothing that the reference has written, of which it may also have died."""
    try:
        yield
    except RunFailed:
        _check_independent(program, case.name, directory, reference)
        raise
    _check_independent(program, case.name, directory, reference)


def _check_independent(program: str, strategy: str, directory: Path, reference: Reference) -> None:
    touched = read_touched(directory / TRACES, directory / INTERRUPTED)
    check_independent(program, {**reference.touched, f"the run under {strategy}": touched})


def _told(verdict: Verdict) -> Verdict:
    announce(verdict)
    return verdict


def judged_run(
    program: Program,
    case: StrategyCase,
    disturbed: Interrupting | Disturbance | None,
    directory: Path,
    reference: Reference,
    began: float,
    **options: Any,
) -> Verdict:
    """Run a program once and judge what it has left in `directory`.

    Args:
        program: what to run.
        case: the strategy.
        disturbed: what happens to it.
        directory: as `kept_in` gives it.
        reference: what should come out.
        began: from when on the verdict counts its seconds, on the monotonic clock.
        options: `seed`, `timeout`, `stream` and `keep`, as of `run_once`.

    Raises:
        SharedState: it has read a file that a run of the reference had written.
        RunFailed: as of `run_once`.
    """
    result = _run(program, case, disturbed, directory, reference, **options)
    return judge_left(program, case, disturbed, directory, reference, result, time.monotonic() - began)


def judge_left(
    program: Program,
    case: StrategyCase,
    disturbed: Interrupting | Disturbance | None,
    directory: Path,
    reference: Reference,
    result: RunResult,
    seconds: float,
    *,
    forced: bool = False,
) -> Verdict:
    """Judge what a run has left; also of one that failed, as long as every client has come to its end."""
    faults = disturbed.to_json(case.topology) if isinstance(disturbed, Disturbance) else None
    tasks = task_summaries(result)
    said: dict[str, Any] = {"tasks": tasks, "seconds": seconds, "faults": faults, "forced": forced}
    return judge(read_parts(directory), reference, program=program.name, **said)


def _run(
    program: Program,
    case: StrategyCase,
    disturbed: Interrupting | Disturbance | None,
    directory: Path,
    reference: Reference,
    *,
    keep: bool,
    **options: Any,
) -> RunResult:
    """The run to be judged, which leaves what its clients recorded in `directory`."""
    check_run_fits(directory, len(case.clients), reference.trace)
    with _independent(program.name, case, directory, reference):
        if isinstance(disturbed, Interrupting):
            disturbed.check_reached(program.name, reference.trace)
            return run_twice(program, case, disturbed, directory, **options)
        return run_once(program, case, directory, keep=keep, disturbance=disturbed, **options)


def judge(
    parts: Parts,
    reference: Reference,
    *,
    program: str,
    tasks: dict[str, dict[str, Any]],
    seconds: float,
    faults: dict[str, Any] | None = None,
    forced: bool = False,
) -> Verdict:
    """What all laws say of a recorded run, and the explanation if it is inconsistent. Needs no TensorFlow.

    Args:
        parts: what was recorded, see `harness.evidence.parts.read_parts`.
        reference: what should have been.
        program: its name.
        tasks: as in `Verdict`.
        seconds: that the run took.
        faults: as in `Verdict`.
        forced: whether the reference followed the run.
    """
    judged = judge_parts(parts, reference)
    judgements: tuple[Judgement, ...] = judged.judgements
    conditions: tuple[Condition, ...] = ()
    if reference.follows:
        judgements, conditions = conditions_of(judged.last, judgements)
    found = judged.last.interruption
    verdict = Verdict(
        program=program,
        strategy=(parts.earlier[0].trace if parts.earlier else parts.last).header.strategy,
        judgements=judgements,
        conditions=conditions,
        tasks=tasks,
        seconds=seconds,
        tolerance=judged.case.tolerance.name,
        interrupted=None if found is None else found.to_json(),
        faults=faults,
        links=None if parts.links is None else parts.links.to_json(),
        placement=_placement(parts),
        environments=environments_of(parts.last, reference),
        abstained=not_finite(reference.trace, judged.case.reference)
        or none_judged(judged.last.apart, judged.last.reference),
        notes=tuple(dict.fromkeys((*reference.notes, *judged.last.notes))),
        forced=forced,
    )
    first = verdict.first_divergence
    verdict = dataclasses.replace(verdict, course=course_of(judged.case, None if first is None else first.step))
    if verdict.outcome == "inconsistent":
        why = explanation_of(judged.case)
        verdict = dataclasses.replace(
            verdict,
            explanation=why,
            closest=closest(judged.case) if why is None else None,
            ledger=_ledger(judged, verdict),
            alone=steps_alone(judged.case) if forced else None,
        )
    return worded(verdict) if parts.last.header.at_once else verdict


def _placement(parts: Parts) -> dict[str, Any] | None:
    found = {client.header.task: client.counters.placement for client in parts.last.clients}
    return {task: msgspec.to_builtins(each) for task, each in found.items() if each is not None} or None


def _ledger(judged: Judged, verdict: Verdict) -> str | None:
    """Who consumed what, if that is wrong; of an interrupted run in all parts, without the steps that were undone."""
    if not any(law.law == "examples_match_reference" and law.status == "broken" for law in verdict.judgements):
        return None
    case = judged.case
    found = case.interruption
    if found is None or found.in_epochs:
        return aligned(case.run, case.reference).table()
    before, after = (Ledger.of(part, found.reference) for part in (found.before, case.run))
    return Ledger.joined(before, after, found.resumed_at).table(Ledger.of(found.reference))


def task_summaries(result: RunResult) -> dict[str, dict[str, Any]]:
    """What verdicts say of each task."""
    return {
        name: {
            "exit": task.exit,
            "steps": task.steps,
            "incarnation": task.incarnation,
            "stopped": task.stopped,
            "devices": list(task.devices),
            **({} if task.machine is None else {"machine": task.machine}),
        }
        for name, task in result.items()
    }
