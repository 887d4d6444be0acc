"""`lockstep verify`: one program under one or more strategies."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harness.cli._baseline import Baseline, baseline_options
from harness.cli._cures import check_fix, fix_options, told_cure, tried
from harness.cli._exits import Exit, command, of_outcome, worst
from harness.cli._options import (
    NEEDED_AND_SPARE,
    fault_options,
    html_option,
    machines_options,
    network_option,
    out_option,
    placing,
    plan_of,
    restart_options,
    timeout_option,
    verbose_option,
)
from harness.cli._output_files import check_written, write_verdicts
from harness.cli._scripts import names_of, script_of, script_options
from harness.cli._terminal_width import show
from harness.cli._verdicts import TEXT, format_of, format_options, reported, show_verdict, told_phases, write
from simulator import UsageError

if TYPE_CHECKING:
    from harness.judging.diagnostics.formats import ReportedVerdict
    from harness.judging.known_issues import KnownIssue
    from harness.judging.verdict import Verdict
    from harness.subject.program import Program
    from harness.subject.strategies import StrategyCase
    from simulator import LockstepError, RunFailed

_EPILOG = """\b
Examples:
  lockstep verify train.py:train --strategy mirrored-2 --strategy multi_worker-2 --json
  lockstep verify train.py:train --strategy mirrored-2 --interrupt-at 5 --resume-strategy mirrored-4
  lockstep verify train.py:train --strategy mirrored-2 --forced        which steps are wrong by themselves?
  lockstep verify train.py:train --strategy multi_worker-2 --fault kind=kill,task=worker:1,step=2,restart=1s
  lockstep verify --worker 2 -- python train.py --epochs 1          an unmodified script, against itself on one device
  lockstep verify --devices cpu:2 -- python train.py
  lockstep verify train.py:train --strategy multi_worker-2 --machines 'ssh {}:m0,m1'
  lockstep verify train.py:train --strategy one_device --reference-python old/bin/python     after an upgrade
  lockstep verify train.py:train --baseline known.json      what is known to be wrong does not fail
"""


@command(epilog=_EPILOG, options_metavar="[OPTIONS]")
@click.argument("program", nargs=-1, required=True, metavar="FILE.py:FUNCTION")
@click.option(
    "--strategy",
    "names",
    multiple=True,
    metavar="NAME",
    help="Strategy to verify under; may be given several times. See `lockstep strategies`.  [default: mirrored-2]",
)
@script_options
@click.option(
    "--interrupt-at",
    type=click.IntRange(min=1),
    metavar="STEP",
    help="Kill all tasks right after this step, and start the program again with the same record.directory.",
)
@click.option("--resume-strategy", metavar="NAME", help="Start it again under this strategy instead of the same one.")
@fault_options
@network_option
@machines_options
@restart_options(f"Restarts that a run with faults may have.  [default: {NEEDED_AND_SPARE}]")
@click.option(
    "--forced",
    is_flag=True,
    help="Accepted, and always so: each step is judged by itself, from what the run's own step had.",
)
@click.option(
    "--explain/--no-explain",
    default=None,
    help="Watch the step that is wrong to name the line that made it wrong; without being asked where something is.",
)
@click.option(
    "--prove/--no-prove",
    default=None,
    help="Also infer from its graph whether a training step is right for every batch.  [default: --prove]",
)
@click.option(
    "--strict",
    is_flag=True,
    help="What is proved only under a condition that the run's own data did not always meet is inconsistent, and so is "
    "what the verdict takes as given.",
)
@click.option("--exact", is_flag=True, help="Allow for no rounding: every intermediate value is exactly representable.")
@click.option(
    "--hardware",
    type=click.Choice(["cpu", "gpu", "gpu-simulated", "tpu", "tpu-rehearsed"]),
    default="cpu",
    show_default=True,
    help="What the strategy runs on. gpu-simulated is a GPU to TensorFlow, and none: it is built on first use, by g++. "
    "tpu-rehearsed compiles the steps of strategy tpu by XLA, on a CPU, and refuses what a TPU would not take.",
)
@click.option(
    "--reference",
    type=click.Choice(["cpu", "device"]),
    default="cpu",
    show_default=True,
    help="What the reference runs on: a CPU, or one device of the strategy's, beside which that on a CPU is noted.",
)
@click.option(
    "--reference-python",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The Python of another environment, which makes the reference: does my training give the same numbers after "
    "the upgrade?",
)
@timeout_option("Seconds for each run, with all its restarts.", 120.0)
@verbose_option
@fix_options
@baseline_options
@format_options
@html_option("Write the verdicts as a page, with losses, timelines and logs.")
@out_option("Keep traces, logs and verdicts in DIR, in place of earlier ones; DIR holds nothing else.")
@click.option("--stream", is_flag=True, help="Show the tasks' output while they run.")
def verify(program: tuple[str, ...], **options: Any) -> int:
    """Check that FUNCTION(strategy, record), or a script, gives the same numbers under a strategy as on one device.

    The function keeps the global batch the same under every strategy and reports through `record`: record.step(loss=,
    gradients=, variables=, examples=, metrics=) after each step, record.final(variables=, predictions=, metrics=) at
    the end, or record.keras_callback(model) in fit. With faults, tasks that are started again have to go on from what
    the function has saved in record.directory.

    A script is run unmodified, as a cluster with --worker (and --ps, with a coordinator) or as one process with
    --devices, and once more as its own reference with one replica. What that cannot answer is named, and then nothing
    is judged (exit code 5).
    """
    options["form"] = format_of(options["form"], as_json=options["as_json"])
    options["names"] = names_of(program, options)
    if len(program) == 1:
        _check_form(program[0])
    _check(options)
    return _verify(program, options)


def _check_form(program: str) -> None:
    """Point whoever names a whole file to the ways to verify it."""
    if program.endswith(".ipynb") and Path(program).is_file():
        raise UsageError(f"{program} is a notebook: lockstep verify --devices cpu:2 -- python {program}")
    if program.endswith(".py") and Path(program).is_file():
        raise UsageError(
            f"{program} names a file and no function. Verify a function of it with {program}:FUNCTION, such as "
            f"{program}:train; or the script as it is, with one process: lockstep verify --devices cpu:2 -- python "
            f"{program}, or with several: lockstep verify --worker 2 -- python {program}"
        )


def _check(options: dict[str, Any]) -> None:
    """Options that make no sense together, in the words of the command line."""
    check_fix(options)
    check_written(options["html"], None)
    if options["resume_strategy"] is not None and options["interrupt_at"] is None:
        raise UsageError("--resume-strategy says how to go on after --interrupt-at STEP; give that as well")
    if options["strict"] and options["prove"] is False:
        raise UsageError("--strict is about proofs; leave out --no-prove")
    disturbed = options["faults"] or options["links"] or options["plan"]
    for name in ("restarts", "restart_policy"):
        if options[name] is not None and not disturbed:
            raise UsageError(f"restarts answer faults; give --fault or --plan besides --{name.replace('_', '-')}")
    if options["interrupt_at"] is not None and disturbed:
        raise UsageError(
            "a run is either interrupted, with --interrupt-at, or has faults and links, with --fault, --link or "
            "--plan; a fault can kill all tasks too: kind=kill,task=*,step=5"
        )


def _verify(program: tuple[str, ...], options: dict[str, Any]) -> int:
    from harness.subject.machines import Over
    from harness.subject.program import Program
    from harness.subject.strategies import strategy_case

    hardware, network, resume = options["hardware"], options["network"], options["resume_strategy"]
    form = options["form"]
    asked: dict[str, Any] = {
        name: options[name]
        for name in (
            "interrupt_at",
            "restarts",
            "restart_policy",
            "forced",
            "explain",
            "prove",
            "reference",
            "reference_python",
            "timeout",
            "stream",
        )
    }
    if options["strict"] and len(program) == 1:  # a script's steps are not proved
        asked["prove"] = True
    if options["fix"]:  # which needs the line
        asked["explain"] = True
    asked["tier"] = "exact" if options["exact"] else "derived"
    over = Over.of(**placing(options))
    asked["resume_strategy"] = None if resume is None else strategy_case(resume, hardware, network, over)
    plan = plan_of(options)
    asked["faults"] = plan if plan.faults or plan.links or options["plan"] is not None else None
    cases = [strategy_case(name, hardware, network, over) for name in dict.fromkeys(options["names"])]
    under_test = Program.of(program[0]) if len(program) == 1 else script_of(program, options)
    if hardware == "cpu" and over is None:
        _begin(under_test)
    from harness.running.interpreter import Interpreter
    from harness.running.machine_files import check_machines

    # What is wrong with the command line is said before it is said that something runs.
    for case in cases:
        check_machines(case)
    if options["reference_python"] is not None:
        asked["reference_python"] = Interpreter.of(options["reference_python"])
    baseline = Baseline(options["baseline"], update=options["update_baseline"], disturbed=_disturbed_by(options))
    outcomes = []
    with _folders(options["out"], cases, page=options["html"] is not None) as folders:
        for case, folder in zip(cases, folders, strict=True):
            with told_phases(case.name, form) as phases:
                found = _one(under_test, program[0], case, {**asked, "out": folder}, options)
                outcomes.append(_given(baseline, *found, said=form == TEXT))
            if options["verbose"]:
                phases.show_seconds()
        kept = [(each, folder) for (_, each, _), folder in zip(outcomes, folders, strict=True) if folder is not None]
        if options["html"] is not None and (judged := [each for each in kept if "error" not in each[0]]):
            write_verdicts(options["html"], judged)
    write(form, [found for _, found, _ in outcomes], [each for _, _, each in outcomes])
    baseline.write()
    return worst(code for code, _, _ in outcomes)


def _disturbed_by(options: dict[str, Any]) -> str:
    """What makes these runs others than plain ones, in the words of the command line."""
    plain = {"hardware": "cpu", "reference": "cpu"}
    names = ("interrupt_at", "resume_strategy", "faults", "links", "plan", "network", "hardware", "reference", "exact")
    return " ".join(f"{name}={options[name]}" for name in names if options[name] and options[name] != plain.get(name))


def _given(
    baseline: Baseline, code: Exit, plain: dict[str, Any], each: ReportedVerdict, *, said: bool
) -> tuple[Exit, dict[str, Any], ReportedVerdict]:
    """What came of a strategy, given what is known to be wrong."""
    code, each, added = baseline.judged(code, each, said=said)
    return code, {**plain, **added}, each


def _begin(program: Program) -> None:
    """Have TensorFlow imported for the tasks, while this process imports what it needs itself."""
    from simulator.launch import DEFAULT_PRELOAD, at_import, forkserver
    from simulator.launch.programs import working_directory

    working_directory()  # which may be gone
    forkserver(DEFAULT_PRELOAD, at_import({**os.environ, **program.task_environ})).begin()


@contextlib.contextmanager
def _folders(out: Path | None, cases: Sequence[StrategyCase], *, page: bool = False) -> Iterator[Sequence[Path | None]]:
    """A folder of --out for each strategy, all checked before the first of them runs; those that stay empty go again.

    Without --out a page has some for as long as the command takes.

    Raises:
        UsageError: one of them holds something else than a run.
    """
    from harness.run_directory import VERDICT, holds_verdicts, run_directory
    from simulator.machines.local.scratch import scratch
    from simulator.out import OutDirectory

    if out is None and page:
        with scratch("page") as kept, _folders(kept / "runs", cases) as folders:
            yield folders
        return
    if out is None:
        yield [None] * len(cases)
        return
    names = [re.sub(r"[^\w.-]", "_", case.name) for case in cases]
    places = [run_directory(out / name, option="--out") for name in names]
    whole = OutDirectory(out, holds_verdicts, option="--out")
    for place in (whole, *places):
        place.check()
    try:
        whole.make()
        whole.add(*names)
        for place in places:
            place.make()
            with place.held():  # a run that fails has none, and that of an earlier one must not stand for it
                place.renew(VERDICT)
        yield [place.path for place in places]
    finally:
        for place in (*places, whole):
            place.unmake()


def _one(
    program: Program, named: str, case: StrategyCase, asked: dict[str, Any], options: dict[str, Any]
) -> tuple[Exit, dict[str, Any], ReportedVerdict]:
    from harness.errors import MissingHardware, NoRoom
    from harness.verify import verify as run_and_judge
    from simulator import HostsUnavailable, LockstepError, RunFailed
    from simulator.hardware import HardwareMissing
    from simulator.machines.far.checks import MachinesUnavailable
    from simulator.machines.local.private_files import PrivateFilesUnavailable

    try:
        verdict = run_and_judge(program, case, **asked)
    except UsageError:
        raise
    except (
        HardwareMissing,
        HostsUnavailable,
        MachinesUnavailable,
        MissingHardware,
        NoRoom,
        PrivateFilesUnavailable,
    ) as error:
        show(str(error), err=True)
        failed = _failed(program, named, case, error, lacking=True)
        return Exit.LACKING, _not_judged(failed, asked, str(error), {}), failed
    except LockstepError as error:
        show(f"{case.name}: the run failed; nothing could be judged\n{error}", err=True)
        _show_known(error, case, _file(program, named), err=True)
        tasks, failed = _tasks(error) if isinstance(error, RunFailed) else {}, _failed(program, named, case, error)
        return Exit.FAILED, _not_judged(failed, asked, str(error), tasks), failed
    verdict = dataclasses.replace(verdict, strict=options["strict"])
    show_verdict(verdict, options["form"], verbose=options["verbose"])
    if options["form"] == TEXT:
        _show_known(verdict, case, _file(program, named))
        _show_met(verdict, program, case, timeout=options["timeout"])
    code = Exit.INCONSISTENT if verdict.denied else of_outcome(verdict.outcome)
    plain = verdict.to_json()
    if options["fix"] and verdict.outcome == "inconsistent":
        cure = tried(verdict, program, named, case, asked)
        plain["cure"] = told_cure(cure, options["form"], write=options["write"])
    return code, plain, reported(verdict, _file(program, named))


def _failed(
    program: Program, named: str, case: StrategyCase, error: LockstepError, *, lacking: bool = False
) -> ReportedVerdict:
    """What ended before it could be judged."""
    from harness.judging.diagnostics import Diagnostic
    from harness.judging.diagnostics.codes import FAILED, LACKING
    from harness.judging.diagnostics.formats import ReportedVerdict

    said, file = str(error).splitlines()[0], _file(program, named)
    found = Diagnostic("error", LACKING if lacking else FAILED, said, program.name, case.name)
    return ReportedVerdict(file, program.name, case.name, 0.0, found)


def _file(program: Program, named: str) -> str:
    """The file of a program, as it was named, or of a script."""
    return named.rpartition(":")[0] if program.script is None else os.path.relpath(program.script.path)


def _show_known(found: LockstepError | Verdict, case: StrategyCase, file: str, *, err: bool = False) -> None:
    """What the program does wrong by itself may look the same, and so may several issues.

    One of Keras is none of a program that names no Keras, nor fails in it.
    """
    from harness.judging.known_issues import shown_by

    text = ""
    with contextlib.suppress(OSError):
        text = Path(file).read_text(errors="replace")
    has_keras = "keras" in text or "keras/" in str(found)
    for issue in shown_by(found, case.name):
        of_keras = bool(issue.meets) and all("keras." in use.of for uses in issue.meets for use in uses)
        if of_keras and not has_keras:
            continue
        show(f"may be the cause, if the program does this: {_known(issue)}", err=err)


def _show_met(verdict: Verdict, program: Program, case: StrategyCase, *, timeout: float) -> None:
    """Known defects that the program meets, of which one may be why a verdict that nothing explains is inconsistent."""
    from harness.audits import met_with

    for met in met_with(verdict, program, case, timeout=timeout):
        places = f" at {', '.join(met.places)}" if met.places else ""
        show(f"may be the cause, which the program meets{places}: {_known(met.issue)}")


def _known(issue: KnownIssue) -> str:
    return f"known issue {issue.id}: {issue.summary} ({issue.reference}); {issue.way_out}"


def _tasks(error: RunFailed) -> dict[str, Any]:
    return {
        name: {
            "exit": task.exit,
            "signal": task.signal,
            "steps": task.steps,
            "error": None if task.error is None else str(task.error),
        }
        for name, task in error.result.items()
    }


def _not_judged(failed: ReportedVerdict, options: dict[str, Any], error: str, tasks: dict[str, Any]) -> dict[str, Any]:
    """The object of a run that ended before it could be judged, with the same keys as a verdict and `error`."""
    return {
        "program": failed.program,
        "strategy": failed.strategy,
        "consistent": False,
        "first_divergence": None,
        "findings": [],
        "explanation": None,
        "tasks": tasks,
        "seconds": None,
        "laws": [],
        "tier": options["tier"],
        "resolution": {},
        "diagnostic": msgspec.to_builtins(failed.diagnostic),
        "error": error,
        **({"forced": True} if options["forced"] else {}),
    }
