"""The command `lockstep`."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, ClassVar

import click

from _lockstep import __version__
from harness.cli._exits import Exit
from harness.cli._output import lasting_output
from harness.cli._terminal_width import columns, fitted

__all__ = ["limit_of", "main"]

# So long after Python has lost a signal it comes again.
_AGAIN_SECONDS = 0.01
# So many signals end it at once.
_ENOUGH = 3
_EXIT_CODES = """\b
Exit codes:
  0  consistent, or finished
  1  inconsistent
  2  usage error
  3  the run failed: a task crashed or hung unasked
  4  this machine lacks what was required
  5  not judged: the program can be judged neither right nor wrong
"""


class _Commands(click.Group):
    """Loads a command's module only when it is used, so that `lockstep --help` is instant."""

    _HELP: ClassVar[dict[str, str]] = {
        "audit": "Which known defects of TensorFlow and Keras a training meets.",
        "bundle": "Write Lockstep and all that it needs into files for a machine without a network.",
        "certify": "Run scenarios on the GPUs of this machine, and report what holds there and how fast.",
        "compare": "Check that a training gives the same numbers under two topologies, plans or environments.",
        "diff": "List the cells that changed between two saved matrices.",
        "doctor": "What this machine can do, and what each missing piece costs.",
        "explain": "What a code of a diagnostic means, and what to do.",
        "judge": "Judge the steps that a watched training has left, while it trains or afterwards.",
        "prove": "Infer from its graph whether a training step is right for every batch.",
        "replay": "Run a saved job again with the same plan, and compare what happened.",
        "report": "Show a saved matrix, judge a saved run again, or draw a run's timeline.",
        "run": "Run an unmodified program as a cluster, with faults and network conditions.",
        "search": "Search for faults that a training does not survive.",
        "strategies": "List the strategies by name.",
        "verify": "Check that a training gives the same numbers distributed as on one device.",
        "watch": "Run a training that leaves evidence of some steps, for `lockstep judge`.",
    }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["arguments"] = tuple(args)
        return super().parse_args(ctx, args)

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
        click.echo(f"lockstep {__version__}")
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


class _Asked:
    """The signal that ends the command: the first one as Ctrl-C does, further ones not at all, until it is enough.

    So what belongs to the run is stopped, what `--out` shall hold is written, and the cursor is shown again; a second
    signal would break off the tidying that the first has begun.
    """

    def __init__(self) -> None:
        self.signals: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)
        if len(self.signals) == 1:
            raise KeyboardInterrupt
        if len(self.signals) >= _ENOUGH:
            # Whatever hangs; the warden ends and removes what is left.
            os._exit(self.code)

    def lost(self, otherwise: Callable[[Any], object], unraisable: sys.UnraisableHookArgs) -> None:
        """Ask again if Python could not pass the first one on, as from a callback of a weak reference."""
        if not isinstance(unraisable.exc_value, KeyboardInterrupt) or len(self.signals) != 1:
            otherwise(unraisable)
            return
        # A moment later: an exception in this function would be lost as well.
        threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), self.signals.pop())).start()

    @property
    def code(self) -> int:
        """The exit code of a process that was ended by the first of them."""
        return 128 + (self.signals[0] if self.signals else signal.SIGINT)


@contextlib.contextmanager
def _heard(asked: _Asked, early: Any) -> Iterator[None]:
    """Ctrl-C, and SIGTERM and SIGHUP, by which CI systems and closed terminals end a command, are put to `asked`."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    # What somebody else handles, or has made to be ignored as nohup does, stays so.
    defaults = (signal.SIG_DFL, signal.default_int_handler, *([early] if early else []))
    mine = {each: handler for each, handler in handlers.items() if handler in defaults}
    if threading.current_thread() is not threading.main_thread():
        mine = {}
    for each in mine:
        signal.signal(each, asked)
    hook = sys.unraisablehook
    if mine:
        sys.unraisablehook = functools.partial(asked.lost, hook)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for each, handler in mine.items():
            signal.signal(each, handler)


def main(early: Any = None) -> int:
    """Run the command of `sys.argv`; the exit code of one that a signal has ended is 128 and its number.

    Args:
        early: the handler of Ctrl-C until now, which is to be replaced; see `_lockstep.command`.

    Raises:
        SystemExit: with the exit code, unless it was called with `early`, which gets it returned.
    """
    asked = _Asked()
    try:
        with _heard(asked, early), lasting_output() as (out, _):
            code = _run(asked)
            sys.stdout.flush()
            if out.lost is not None and code in (Exit.FINE, Exit.INCONSISTENT, Exit.ABSTAINED):
                click.echo(f"Error: stdout could not be written: {out.lost.strerror}", err=True)
                code = Exit.FAILED
    except KeyboardInterrupt:  # it came between two lines of this function
        code = asked.code
    if early is None:
        sys.exit(code)
    return code


def _is_gone() -> bool:
    """Whether the working directory has been deleted; it can still be asked for what it is, and not for its name."""
    try:
        os.getcwd()  # noqa: PTH109 - Path.cwd() is the same, and is not to be imported for it
    except OSError:
        return True
    return False


def _run(asked: _Asked) -> int:
    try:
        code = _lockstep.main(prog_name="lockstep", standalone_mode=False)
    except click.ClickException as error:
        if type(error) is click.UsageError:  # others put together what they say themselves
            label = "Error: "
            text = fitted(label + error.message, columns(err=True))
            error = click.UsageError(text[len(label) :], error.ctx)
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt) as error:
        if isinstance(error.__cause__, EOFError):  # which click takes for a wish to leave, wherever it comes from
            traceback.print_exception(error.__cause__)
            return Exit.FAILED
        click.echo("interrupted", err=True)
        return asked.code
    except Exception as error:  # noqa: BLE001 - a defect of Lockstep must not exit with 1, which says "inconsistent"
        # `multiprocess` makes an ImportError of a signal at its import, and a class that is being made a RuntimeError.
        if asked.signals and (isinstance(error, ImportError) or isinstance(error.__cause__, KeyboardInterrupt)):
            click.echo("interrupted", err=True)
            return asked.code
        from simulator import LockstepError

        limit = limit_of(error)
        if (said := str(error) if isinstance(error, LockstepError) else limit) is not None:
            click.echo(f"Error: {said}", err=True)
            return Exit.FAILED if limit is None else Exit.LACKING
        if isinstance(error, SystemError) and _is_gone():
            # Python 3.13.0 cannot import half of its library in a directory that is gone.
            click.echo("Error: the working directory has been deleted; change to one that exists", err=True)
            return 2
        traceback.print_exc()
        return Exit.FAILED
    return code if isinstance(code, int) else 0


# What this machine does not give, said in one sentence instead of with the place in the code where it was missed.


_LIMITS = {
    errno.EMFILE: "this process may open no more files; raise the limit with `ulimit -n`",
    errno.ENFILE: "this machine may open no more files; close what is not needed",
    errno.EAGAIN: "no more processes or threads may be started; raise the limit with `ulimit -u`, or end what runs",
    errno.ENOMEM: "there is not enough memory for another process",
    errno.ENOSPC: "no space is left on the device; free some, or name another directory with TMPDIR",
    errno.EDQUOT: "the quota of the disk is used up; free some space, or name another directory with TMPDIR",
    errno.EROFS: "the file system cannot be written to; name another directory with TMPDIR",
    errno.EACCES: "permission is denied",
}


def limit_of(error: BaseException) -> str | None:
    """The sentence, if the cause of an exception is a limit of the machine; else it is a defect of Lockstep."""
    while True:
        if isinstance(error, OSError) and error.errno in _LIMITS:
            where = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, (str, bytes)) else ""
            return f"{_LIMITS[error.errno]}{where}"
        if isinstance(error, MemoryError):
            return _LIMITS[errno.ENOMEM]
        if isinstance(error, FileNotFoundError) and not _has_temporary():
            return "no temporary directory can be written to; name one with TMPDIR"
        # Python has no exception of its own for this.
        if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
            return _LIMITS[errno.EAGAIN]
        if error.__cause__ is None:
            return None
        error = error.__cause__


def _has_temporary() -> bool:
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        return False
    return True
