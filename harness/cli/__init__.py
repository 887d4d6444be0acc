"""The command `lockstep`."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import ClassVar

import click

__all__ = ["main"]

_FAILED = 3
_EXIT_CODES = """\b
Exit codes:
  0  consistent, or finished
  1  inconsistent
  2  usage error
  3  the run failed: a task crashed or hung unasked
  4  this machine lacks what was required
  5  abstained: the program can be judged neither right nor wrong
"""


class _Commands(click.Group):
    """Loads a command's module only when it is used, so that `lockstep --help` is instant."""

    _HELP: ClassVar[dict[str, str]] = {
        "diff": "List the cells that changed between two saved matrices.",
        "doctor": "What this machine can do, and what each missing piece costs.",
        "replay": "Run a saved job again with the same plan, and compare what happened.",
        "report": "Show a saved matrix, judge a saved run again, or draw a run's timeline.",
        "run": "Run an unmodified program as a cluster, with faults and network conditions.",
        "search": "Search for faults that a training does not survive.",
        "strategies": "List the strategies by name.",
        "verify": "Check that a training gives the same numbers distributed as on one device.",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._HELP)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._HELP:
            return None
        import importlib

        module = importlib.import_module(f"harness.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self._HELP.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        import difflib

        if args and self.get_command(ctx, args[0]) is None:
            near = difflib.get_close_matches(args[0], self._HELP, n=1)
            hint = f" Did you mean {near[0]}?" if near else f" Commands are {', '.join(sorted(self._HELP))}."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


def _show_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    """Print the version and exit; click's own option ends in a traceback in a checkout that has not been installed."""
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"lockstep {version('tf-lockstep')}")
        except PackageNotFoundError:
            click.echo("lockstep, from a checkout that is not installed")
        context.exit()


@click.group("lockstep", cls=_Commands, epilog=_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def _lockstep() -> None:
    """Does this training give the same numbers distributed as on one device?

    \b
    Example:
      lockstep verify train.py:train --strategy mirrored-2 --strategy multi_worker-2
    """  # noqa: D301 - \b is the character by which click keeps lines as they are


@contextlib.contextmanager
def _ended_as_by_ctrl_c(asked: list[int]) -> Iterator[None]:
    """SIGTERM and SIGHUP, by which CI systems and closed terminals end a command, end it as Ctrl-C does.

    What belongs to the run is stopped, what `--out` shall hold is written, and the cursor is shown again. The number of
    the signal is put into `asked`.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        # A second one would break off the tidying that the first has begun.
        if not asked:
            asked.append(number)
            raise KeyboardInterrupt

    # What somebody else handles, or has made to be ignored as nohup does, stays so.
    mine = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        mine = []
    for each in mine:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each in mine:
            signal.signal(each, signal.SIG_DFL)


def main() -> None:
    """Entry point of the command `lockstep`; the exit code of one that a signal has ended is 128 and its number."""
    asked: list[int] = []
    try:
        with _ended_as_by_ctrl_c(asked):
            code = _lockstep.main(prog_name="lockstep", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = 2
    except click.Abort:
        click.echo("interrupted", err=True)
        code = 128 + (asked[0] if asked else signal.SIGINT)
    except Exception:  # noqa: BLE001 - a defect of Lockstep itself must not exit with 1, which says "inconsistent"
        traceback.print_exc()
        code = _FAILED
    sys.exit(code if isinstance(code, int) else 0)
