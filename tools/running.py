"""Runs the cases of a tool, several at once; however the tool ends, nothing is left behind and no result is lost."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
import msgspec

from harness.running.crew import Begun, ProcessLost, crew_of

# Options that tools share.
only = click.option("--only", default="*", show_default=True, metavar="GLOB", help="Those whose names match.")
json_file = click.option(
    "--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write every result there, as it comes."
)


class Named(Protocol):
    """A case, which can be sent to a process, or its result, of the same name."""

    @property
    def name(self) -> str:
        """What messages call it."""


_Case = TypeVar("_Case", bound=Named)
_Result = TypeVar("_Result")
_Saved = TypeVar("_Saved", bound=Named)


def results_of(cases: Iterable[_Case], jobs: int, run: Callable[[_Case], _Result]) -> Iterator[_Result]:
    """The result of each case, in the order in which they end.

    Args:
        cases: what to run.
        jobs: how many at once; each is a process, which starts others.
        run: what makes a result of a case; sent to the processes, once.
    """
    if jobs == 1:
        yield from map(run, cases)
        return
    waiting = iter(cases)
    running: dict[int, tuple[Begun[_Result], _Case]] = {}
    with crew_of(jobs, functools.partial(_same, run)) as crew:
        while True:
            for case in itertools.islice(waiting, len(crew.free)):
                begun = crew.begin(case)
                running[begun.fileno()] = begun, case
            if not running:
                return
            for number in wait(list(running)):
                assert isinstance(number, int)
                yield _told(*running.pop(number))


@contextlib.contextmanager
def _same(run: Callable[[_Case], _Result]) -> Iterator[Callable[[_Case], _Result]]:
    yield run


def _told(done: Begun[_Result], case: Named) -> _Result:
    try:
        return done.wait()
    except ProcessLost:
        raise ProcessLost(f"the process that ran {case.name} has ended without a result") from None


def at_once(jobs: int) -> Callable[..., Any]:
    """The option that says how many cases are run at the same time."""
    return click.option(
        "--jobs", default=jobs, show_default=True, type=click.IntRange(1), help="Cases run at the same time."
    )


def to_page(page: Path) -> Callable[..., Any]:
    """The option to write the results into a page."""
    return click.option("--page", is_flag=True, help=f"Write the table into docs/{page.name}.")


def named(cases: Sequence[_Case], only: str) -> Sequence[_Case]:
    """The cases that were chosen.

    Raises:
        click.UsageError: there are none.
    """
    if not cases:
        raise click.UsageError(f"--only: nothing is called like {only!r}")
    return cases


def saved(file: Path, kind: type[_Result]) -> list[_Result]:
    """The results that `--json` has written.

    Raises:
        click.UsageError: the file has something else.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[kind])  # type: ignore[valid-type]
    except msgspec.MsgspecError as error:
        raise click.UsageError(f"{file} is not what --json writes: {error}") from None


def track(
    cases: Sequence[_Case],
    run: Callable[[_Case], _Saved],
    jobs: int,
    say: Callable[[_Saved], str],
    *,
    file: Path | None = None,
    known: Iterable[_Saved] = (),
    seconds: float = math.inf,
) -> list[_Saved]:
    """Run the cases that have no result yet, and say of each what came of it; the results there are, in their order.

    Args:
        cases: what to run.
        run: what makes a result of a case.
        jobs: how many at once.
        say: what is said of a result.
        file: has every result after each case, so that an interruption loses nothing.
        known: results of earlier runs, also of other cases, which stay in the file.
        seconds: no case begins later.
    """
    if file is not None and not file.parent.is_dir():
        raise click.UsageError(f"--json: there is no directory {file.parent}")
    results = {result.name: result for result in known}
    waiting = [case for case in cases if case.name not in results]
    began, first = time.monotonic(), len(cases) - len(waiting) + 1
    in_time = itertools.takewhile(lambda case: time.monotonic() - began < seconds, waiting)
    for number, result in enumerate(results_of(in_time, max(1, min(jobs, len(waiting))), run), start=first):
        results[result.name] = result
        click.echo(f"[{number}/{len(cases)}, {time.monotonic() - began:.0f} s] {result.name}: {say(result)}", err=True)
        if file is not None:
            file.write_bytes(msgspec.json.format(msgspec.json.encode(list(results.values()))) + b"\n")
    return [results[case.name] for case in cases if case.name in results]
