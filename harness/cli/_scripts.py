"""The options of `lockstep verify` that are about unmodified scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from harness.subject.program import Program

__all__ = ["names_of", "script_of", "script_options"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FIRST = 100
_COUNTS = ("worker", "ps", "devices")


def script_options(command: _Command) -> _Command:
    """`--worker`, `--ps`, `--devices`, `--first` and `--assume`."""
    for option in reversed(
        (
            click.option("--worker", type=click.IntRange(min=1), metavar="N", help="Of a script: worker tasks."),
            click.option("--ps", type=click.IntRange(min=1), metavar="N", help="Of a script: parameter server tasks."),
            click.option("--devices", metavar="cpu:N", help="Of a script: logical devices of each task."),
            click.option(
                "--first",
                type=click.IntRange(min=1),
                default=_FIRST,
                show_default=True,
                metavar="N",
                help="Of a script: how many steps are judged; after them it is ended.",
            ),
            click.option(
                "--assume",
                multiple=True,
                metavar="FILE:LINE=N",
                help="Of a script: what the number of replicas is in its reference at this line, if you know it.",
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
    from simulator import UsageError
    from simulator.topology import Devices

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
    devices = Devices.parse(options["devices"] or "cpu:1")
    if devices.kind != "cpu":
        raise UsageError("scripts are verified on CPU devices; write --devices cpu:N")
    workers = options["worker"]
    if options["ps"] is not None:
        if devices.count > 1:
            raise UsageError("workers of a coordinator have one device each; leave out --devices")
        return (f"parameter_server-{workers}w{options['ps']}p",)
    if workers is None:
        return (f"mirrored-{devices.count}",)
    return (f"multi_worker-{workers}" + (f"x{devices.count}" if devices.count > 1 else ""),)


def script_of(command: Sequence[str], options: dict[str, Any]) -> Program:
    """The script of a command.

    Raises:
        UsageError: it cannot be verified.
    """
    from harness.subject.program import Program
    from harness.subject.script import Script

    return Program.of_script(Script.of(command, options["first"], options["assume"]))
