"""What `lockstep run` says of a job while it runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from simulator import Run
from simulator.threads import Worker

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from simulator.run.task import Task

_PLAIN_SECONDS, _LIVE_SECONDS = 10.0, 0.25
_SAME_SECONDS = 30.0
_LOOK_SECONDS = 0.25


class Progress:
    """Follows a job on stderr from `follow` until its context ends.

    On a terminal a line at the bottom shows the time, each task with its state and step, and the faults that have
    fired. What tasks write appears above it, if the context is entered before they are started. Elsewhere a line says
    every 10 s which step each task has reached, or what it does, if that has changed; if it stays so, again after 30 s,
    60 s and so on. Both say at once when a fault has struck.

    Args:
        quiet: whether nothing is said.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._worker: Worker | None = None
        self._live = None if quiet else _live()

    def __enter__(self) -> Progress:
        self._screen: AbstractContextManager[Any] = nullcontext() if self._live is None else self._live
        self._screen.__enter__()
        return self

    def follow(self, run: Run) -> None:
        """Say what this run does from now on."""
        if self._quiet:
            return
        follow = self._say if self._live is None else self._show
        self._worker = Worker.started("progress", partial(follow, run))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._worker is not None:
            self._worker.join()
        self._screen.__exit__(kind, error, trace)

    def _say(self, run: Run) -> None:
        said, strikes, due = "", _strikes(run), time.monotonic() + _PLAIN_SECONDS
        changed, again, ended = 0.0, 0.0, False
        while not ended:
            ended = self._stop.wait(min(_LOOK_SECONDS, _PLAIN_SECONDS))
            for strike in next(strikes)[1]:
                click.echo(f"lockstep: {strike}", err=True)
            if ended or (now := time.monotonic()) < due:
                continue
            due = now + _PLAIN_SECONDS
            tasks = ", ".join(f"{name} {_reached(task)}" for name, task in run.tasks.items())
            if tasks != said:
                said, changed, again = tasks, now, now + _SAME_SECONDS
                click.echo(f"lockstep: steps: {tasks}", err=True)
            elif now >= again:
                again = now + (now - changed)
                click.echo(f"lockstep: the same for {now - changed:.0f} s: {tasks}", err=True)

    def _show(self, run: Run) -> None:
        assert self._live is not None
        strikes, ended = _strikes(run), False
        while not ended:
            fired, new = next(strikes)
            for strike in new:
                self._live.console.print(f"lockstep: {strike}", markup=False)
            self._live.update(line(time.monotonic() - self._began, dict(run.tasks), fired, _planned(run)))
            self._live.refresh()
            ended = self._stop.wait(_LIVE_SECONDS)
        for strike in next(strikes)[1]:
            self._live.console.print(f"lockstep: {strike}", markup=False)


def _live() -> Live | None:
    """The display, where stderr is a terminal that can move its cursor."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    # stdout is left alone: the outcome may go into a file or another program.
    return Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)


def line(seconds: float, tasks: Mapping[str, Task], fired: list[str], planned: int) -> Text:
    """The time, each task, and the faults.

    Args:
        seconds: since the job began.
        tasks: their current incarnations by name.
        fired: ids of the faults that have fired.
        planned: how many faults the plan has.
    """
    from rich.text import Text

    told = Text(f"{seconds:.0f} s")
    for name, task in tasks.items():
        state, style = _state(task)
        again = f"#{task.incarnation}" if task.incarnation else ""
        told.append(f"  {name}{again} ", style="bold").append(state, style=style)
    if planned:
        told.append(f"  faults {len(fired)} of {planned}", style="red" if fired else "")
        told.append(f" ({', '.join(fired)})" if fired else "")
    return told


def _state(task: Task) -> tuple[str, str]:
    """What it does, and the colour of that."""
    step = f"step {task.steps}{_loss(task)}" if task.steps else ""
    if task.error is not None:
        return f"failed ({task.error.kind})", "red"
    if task.ended:
        return "comes back" if task.comes_back else "ended" if task.exit == 0 or task.stopped else "died", "yellow"
    if task.result is not None:
        return f"returned {step}".rstrip(), "green"
    if task.at_gate is not None:
        return f"held at {task.at_gate}", "yellow"
    if task.saving:
        doing = "restoring" if next(iter(task.saving.values())).begun.restores else "saving"
        return f"{step} {doing}".lstrip(), "cyan"
    if step:
        return step, "green"
    return "runs" if task.is_up else "starts", ""


def _reached(task: Task) -> str:
    """The step of a task that goes on, or else what it does."""
    state = _state(task)[0]
    return f"{task.steps}{_loss(task)}" if task.counted_by and state.startswith("step ") else state


def _loss(task: Task) -> str:
    return "" if getattr(task, "loss", None) is None else f" loss {task.loss:.4g}"


def _strikes(run: Run) -> Iterator[tuple[list[str], list[str]]]:
    """Again and again the ids of the faults that have fired so far, and a sentence for each that is new.

    They are read from what the journal has grown by.
    """
    import msgspec

    found: list[str] = []
    with run.journal.path.open("rb") as journal:
        rest = b""
        while True:
            *lines, rest = (rest + journal.read()).split(b"\n")
            events = [msgspec.json.decode(each) for each in lines if b'"event":"fired"' in each]
            found += [event["fault"] for event in events]
            yield found, [_struck(event, run.began, stays=_ends_for_good(event, run)) for event in events]


def _struck(event: dict[str, Any], began: float, *, stays: bool = False) -> str:
    where = f" {', '.join(event['tasks'])}" if event.get("tasks") else ""
    what = f"fault {event['fault']} ({event['kind']}) struck{where} at {event['trigger'].removesuffix(f' of{where}')}"
    told = f"{what}, after {event['t'] - began:.1f} s"
    return f"{told}; nothing starts it again (restart=1s in the fault, or --restarts N, would)" if stays else told


def _ends_for_good(event: dict[str, Any], run: Run) -> bool:
    """Whether a fault has ended tasks that nobody is to start again."""
    plan = getattr(run.companion, "plan", None)
    brought_back = {str(fault.id): fault.brings_back for fault in (plan.faults if plan is not None else ())}
    back = brought_back.get(event["fault"], True) or run.options.restarts.limit > 0
    return bool((event.get("effect") or {}).get("ended")) and not back


def _planned(run: Run) -> int:
    plan = getattr(run.companion, "plan", None)
    return 0 if plan is None else len(plan.faults)
