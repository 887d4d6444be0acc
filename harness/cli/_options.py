"""The options that several commands have, each declared once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from simulator import UsageError

if TYPE_CHECKING:
    from simulator import FaultPlan

NEEDED_AND_SPARE = "as many as its faults can cause, and 3"
"""How many restarts a run that is judged may have, in words."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def together(*options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """One decorator for several options, which `--help` shows in this order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def fault_options(command: _Command) -> _Command:
    """`--link`, `--fault`, `--plan` and `--seed`, which `plan_of` puts together."""
    return together(
        click.option("--link", "links", multiple=True, metavar="KEY=VALUE,...", help="Condition of a network link."),
        click.option("--fault", "faults", multiple=True, metavar="KEY=VALUE,...", help="Fault that shall happen."),
        click.option(
            "--plan",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE.toml",
            help="Plan of faults.",
        ),
        seed_option("Decides what the plan leaves open.  [default: the plan's, or 0]"),
    )(command)


def network_option(command: _Command) -> _Command:
    """`--network`."""
    return click.option(
        "--network",
        type=click.Choice(["loopback", "namespaces"]),
        help="Where tasks have their network: on this machine's loopback interface, or each on a host of its own, with "
        "a name, an address and packets that can be lost.  [default: loopback]",
    )(command)


def machines_options(command: _Command) -> _Command:
    """`--machines`, `--place`, `--files`, `--machines-python` and `--machines-cable`."""
    return together(
        click.option(
            "--machines",
            metavar="'COMMAND {}:NAME,...'",
            help="Run tasks on these machines: COMMAND starts a process on the one whose name stands for {} and joins "
            "its standard streams, such as 'ssh {}:m0,m1'. Or ray:COUNT, ray:NODE,NODE: nodes of a Ray cluster.",
        ),
        click.option(
            "--place",
            multiple=True,
            metavar="TASK=NAME",
            help="The machine of a task; others go to the machines in blocks.",
        ),
        click.option(
            "--files",
            type=click.Choice(["shared", "ship"]),
            help="The working directory is the same on all machines, which is proved, or its files are sent.  "
            "[default: shared]",
        ),
        click.option("--machines-python", metavar="PATH", help="Python there.  [default: the path of this one]"),
        click.option(
            "--machines-cable",
            metavar="'COMMAND {}'",
            help="A command of this machine that pulls the cable of the one whose name stands for {}, for faults of "
            "kind cut.",
        ),
    )(command)


def placing(options: dict[str, Any]) -> dict[str, Any]:
    """What the options of machines ask for, as `Job` has it.

    Raises:
        UsageError: a place is not `TASK=NAME`.
    """
    place = {}
    for text in options["place"]:
        task, mark, name = text.partition("=")
        if not (task and mark and name):
            raise UsageError(f"--place {text!r} is not understood; write a task and a machine: --place worker:0=m1")
        place[task] = name
    return {name: options[name] for name in ("machines", "files", "machines_python", "machines_cable")} | {
        "place": place
    }


def seed_option(text: str, default: int | None = None) -> Callable[[_Command], _Command]:
    """`--seed`."""
    return click.option("--seed", type=int, default=default, show_default=default is not None, metavar="N", help=text)


def restart_options(text: str, default: int | None = None) -> Callable[[_Command], _Command]:
    """`--restarts` and `--restart-policy`."""
    return together(
        click.option(
            "--restarts",
            type=click.IntRange(min=0),
            default=default,
            show_default=default is not None,
            metavar="N",
            help=text,
        ),
        click.option(
            "--restart-policy",
            type=click.Choice(["task", "job", "none"]),
            help="What a failure restarts.  [default: task with ps tasks, job without]",
        ),
    )


class _Seconds(click.FloatRange):
    """Says of what is no number what it should be."""

    name = "number of seconds"


def timeout_option(text: str, default: float | None = None) -> Callable[[_Command], _Command]:
    """`--timeout`."""
    return click.option(
        "--timeout",
        type=_Seconds(min=0, min_open=True),
        default=default,
        show_default=default is not None,
        metavar="S",
        help=text,
    )


def verbose_option(command: _Command) -> _Command:
    """`--verbose`."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Show all that is known: each law, its numbers, and why one was not judged.",
    )(command)


def out_option(text: str, default: Path | None = None) -> Callable[[_Command], _Command]:
    """`--out`."""
    return click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=default,
        show_default=default is not None,
        metavar="DIR",
        help=text,
    )


def html_option(text: str) -> Callable[[_Command], _Command]:
    """`--html`."""
    return click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help=text)


def try_out(directory: Path) -> None:
    """Fail before anything starts if the directory of `--out` cannot be had; there may be nothing to write into it.

    Raises:
        UsageError: it cannot be made, or not be written to.
    """
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {directory} cannot be made: {error.strerror}") from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise UsageError(f"--out {directory} cannot be written to; name another directory")
    for path in made:
        path.rmdir()


def plan_of(options: dict[str, Any]) -> FaultPlan:
    """The plan of the file, with the links and faults of the command line added to it.

    Raises:
        UsageError: one of them is not understood.
    """
    from simulator import FaultPlan, Link

    plan = FaultPlan() if options["plan"] is None else FaultPlan.load(options["plan"])
    return msgspec.structs.replace(
        plan,
        links=(*plan.links, *map(Link.parse, options["links"])),
        faults=(*plan.faults, *map(FaultPlan.parse_fault, options["faults"])),
        seed=plan.seed if options["seed"] is None else options["seed"],
    )
