"""`lockstep watch`: a training that leaves the evidence of some steps, for `lockstep judge`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from harness.cli._exits import command
from harness.cli._options import out_option
from harness.cli.run import run
from harness.watch import EVERY, ROOM
from simulator import UsageError

_EPILOG = """\b
Examples:
  lockstep watch --every 500 --out evidence -- python train.py             on the devices of this machine
  lockstep watch --worker 2 --every 100 --out evidence -- python train.py  as a cluster of two workers
  python -m harness.watch --every 500 --out evidence train.py              the same where others start the job
  lockstep judge evidence --follow                                         anywhere, while it trains or afterwards

\b
Exit codes: those of COMMAND, or of `lockstep run` for a cluster.
"""
_OF_RUN = ("worker", "devices", "links", "faults", "plan", "seed", "restarts", "restart_policy", "timeout", "quiet")
_CLUSTER = ("worker", "devices", "plan")


@command(
    epilog=_EPILOG,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS] --",
    params=[each for each in run.params if each.name in _OF_RUN],
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND...")
@click.option("--every", type=click.IntRange(min=1), default=EVERY, show_default=True, metavar="N", help="Which steps.")
@click.option("--room", default=ROOM, show_default=True, metavar="SIZE", help="That evidence may take; oldest out.")
@out_option("Leave the evidence in DIR, which all tasks share.")
def watch(command: tuple[str, ...], every: int, room: str, out: Path | None, **options: Any) -> int:
    """Run COMMAND, which starts a Python script, and leave the evidence of its first step and of every Nth.

    Of several functions in turns each leaves some.

    The training is not changed, and does not fail or wait because of it. Without --worker and --devices it is run as it
    is, on the devices of this machine.
    """
    from _lockstep.children import child_command
    from harness.subject.script import Script
    from simulator.units import parse_size

    if out is None:
        raise click.UsageError("say where the evidence shall be left: --out DIR")
    if not command:
        example = "lockstep watch --out evidence -- python train.py"
        raise UsageError(f"there is no command; write it after --, for example: {example}")
    parse_size(room, "--room")
    script = Script.of(command)
    if script.cells:
        raise UsageError("a notebook cannot be watched; put `with harness.watch(out=DIR):` into a cell")
    told = ("--every", str(every), "--room", room, "--out", str(out.absolute()))
    watched = child_command("harness.watch", *told, script.path, *script.args)
    if all(options[name] is None for name in _CLUSTER):
        os.execv(watched[0], watched)  # noqa: S606 - it becomes the training
    return int(click.get_current_context().invoke(run, command=tuple(watched), **options))
