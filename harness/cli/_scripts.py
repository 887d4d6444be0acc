"""The options of `lockstep verify` that are about unmodified scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from simulator import UsageError

if TYPE_CHECKING:
    from harness.subject.program import Program
    from simulator.topology import Devices

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FIRST = 100
_COUNTS = ("worker", "ps", "devices")


def script_options(command: _Command) -> _Command:
    """`--worker`, `--ps`, `--devices`, `--first` and `--assume`."""
    for option in reversed(
        (
            click.option("--worker", type=click.IntRange(min=1), metavar="N", help="Of a script: worker tasks."),
            click.option("--ps", type=click.IntRange(min=1), metavar="N", help="Of a script: parameter server tasks."),
            click.option(
                "--devices", metavar="cpu:N", help="Of a script: devices of each task; or gpu:N, gpu-simulated:N."
            ),
            click.option(
                "--first",
                type=click.IntRange(min=1),
                default=_FIRST,
                show_default=True,
                metavar="N",
                help="Of a script: how many steps that take gradients are judged, or ten times as many that take none; "
                "after them it is ended.",
            ),
            click.option(
                "--assume",
                multiple=True,
                metavar="FILE:LINE=N",
                help="Of a script: what the number of replicas is in its reference at this line, if you know it; or "
                "closures=updates, closures=shares: what each closure of a coordinator is.",
            ),
        )
    ):
        command = option(command)
    return command


def names_of(program: Sequence[str], options: dict[str, Any]) -> tuple[str, ...]:
    """The strategies that were asked for: by their names, or of a script by the cluster that it shall run on.

    Raises:
        UsageError: options that make no sense together.
    """
    given = [f"--{name}" for name in _COUNTS if options[name] is not None]
    if len(program) == 1 and (given or options["assume"]):
        asked = given[0] if given else "--assume"
        if ":" not in program[0]:
            raise UsageError(
                f"after -- the whole command is expected that starts a script in Python, not {program[0]!r}: lockstep "
                f"verify {asked} ... -- python train.py"
            )
        raise UsageError(f"{asked} is about a script, as in `lockstep verify --worker 2 -- python train.py`")
    if options["names"] and given:
        raise UsageError(f"--strategy and {given[0]} both say what the script runs on; give one of them")
    if len(program) > 1:
        _check_devices(options)
    if options["names"] or len(program) == 1:
        return tuple(options["names"]) or ("mirrored-2",)
    if not given:
        raise UsageError(
            "say what the script runs on: --devices cpu:2 for one process with two replicas (MirroredStrategy), "
            "--worker 2 for two processes (MultiWorkerMirroredStrategy), --worker 2 --ps 1 for a coordinator "
            "(ParameterServerStrategy)"
        )
    if options["ps"] is not None and options["worker"] is None:
        raise UsageError("--ps needs --worker N too: the tasks that run what the coordinator schedules")
    devices = _devices(options)
    workers = options["worker"]
    if options["ps"] is not None:
        if devices.count > 1:
            raise UsageError("workers of a coordinator have one device each; leave out --devices")
        return (f"parameter_server-{workers}w{options['ps']}p",)
    if workers is None:
        return (f"mirrored-{devices.count}",)
    return (f"multi_worker-{workers}" + (f"x{devices.count}" if devices.count > 1 else ""),)


def _check_devices(options: dict[str, Any]) -> None:
    """Fail where a script, or its reference, would not run, whatever this machine has."""
    if options["hardware"].startswith("tpu") or options["reference"] != "cpu":
        raise UsageError(
            "scripts are verified on CPU devices and GPUs, against a reference on a CPU; verify the training as a "
            "function, FILE.py:FUNCTION"
        )


def _devices(options: dict[str, Any]) -> Devices:
    """Those of each task, which `--hardware` then names as well."""
    from simulator.topology import Devices

    otherwise = options["hardware"] if options["hardware"].startswith("gpu") else "cpu"
    devices = Devices.parse(options["devices"] or f"{otherwise}:1")
    if options["hardware"] not in ("cpu", devices.kind):
        raise UsageError(f"--devices {devices} and --hardware {options['hardware']} are two kinds; give one of them")
    options["hardware"] = devices.kind
    return devices


def script_of(command: Sequence[str], options: dict[str, Any]) -> Program:
    """The script of a command.

    Raises:
        UsageError: it cannot be verified.
    """
    from harness.subject.program import Program
    from harness.subject.script import Script

    script = Script.of(command, options["first"], options["assume"])
    if script.cells and options["fix"]:
        raise UsageError("--fix changes files of Python, not notebooks; change the cell that the verdict names")
    return Program.of_script(script)
