"""A machine that is a site at the other end of a wire."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from simulator.errors import DeadlineExceeded, LockstepError
from simulator.machines.far.clock import HERE, MachineClock, better, measured
from simulator.machines.far.lease import LeaseWatch
from simulator.machines.far.wire import SiteStream
from simulator.machines.local.private_files import PrivateFilesUnavailable
from simulator.machines.protocol import LEFT, Broke, Event, MachineFacts, MachineShare, MachineSilent, Silent
from simulator.wire import site
from simulator.wire.events import NoMessage, Said, TaskEvent, Who
from simulator.wire.framing import Malformed
from simulator.wire.spec import TaskSpec

_ANSWER_SECONDS_MAX = 60.0
_HALF_SECONDS_MAX = 2.0
_SUFFIXES = {"logs": "log", "stacks": "txt"}
_Told = TypeVar("_Told", bound=msgspec.Struct)


class MachineGone(LockstepError):
    """Raised when a machine is asked for something and is not there any more."""


class Way(msgspec.Struct, frozen=True):
    """How programs are found on another machine.

    Attributes:
        cwd: the working directory there; empty for the files that were sent.
        path: where modules are found besides; from the working directory, where that is a folder of files sent.
    """

    cwd: str
    path: tuple[str, ...] = ()


class FarMachine:
    """What `Machine` says, by messages; one run at a time.

    Args:
        name: by which users know it.
        wire: to its site, which was started with the same lease.
        watch: notices when it is not heard any more.
        pull: pulls its cable; None where nobody can.
    """

    def __init__(self, name: str, wire: SiteStream, watch: LeaseWatch, pull: Callable[[], None] | None = None) -> None:
        self.name = name
        self.up: site.Up | None = None
        self.clock: MachineClock = HERE
        # By which the others reach it, and how programs are found there; set before the first run.
        self.address = "127.0.0.1"
        self.way = Way("")
        self._wire = wire
        self._watch = watch
        self._pull = pull
        self._hear: Callable[[Event], None] = lambda event: None
        self._changed = threading.Condition()
        self._answers: dict[int, site.CallDone | site.Refused] = {}
        self._numbers = itertools.count(1)
        self._inbox = site.inbox(site.FROM_SITE)
        # Why it is not there any more; empty while it is.
        self._gone = ""
        self._directory: Path | None = None
        self._relayed: Callable[[bytes], None] = lambda data: None
        watch.begin(self._lost, lambda at: self._hear(Silent(self.name, at)))
        wire.listen(self._receive, self._watch.ended)

    # -- before runs

    @property
    def facts(self) -> MachineFacts:
        """As of `Machine`."""
        assert self.up is not None
        return MachineFacts(cores=self.up.cores)

    @property
    def clock_error(self) -> float:
        """As of `Machine`."""
        return self.clock.within(time.monotonic())

    @property
    def there(self) -> bool:
        """Whether it has not been lost."""
        return not self._gone

    @property
    def dead_at(self) -> float:
        """As of `Machine`: its site ends its tasks when its lease is over, also one that nobody hears."""
        return self._watch.dead_at

    @property
    def silent(self) -> bool:
        """As of `Machine`."""
        return self._watch.silent

    def meet(self, seconds: float) -> None:
        """Wait until its site is there, and compare clocks.

        Raises:
            MachineLost: it is not, and why.
            DeadlineExceeded: nor has it said so.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self.up is not None or self._gone, seconds):
                raise DeadlineExceeded(f"the site on machine {self.name} to start", seconds)
            if self.up is None:
                raise MachineGone(f"machine {self.name} cannot be used: {self._gone}")
        self.clock = measured(lambda: self.ask(site.ClockQuery).at)

    def ask(self, question: Callable[[int], site.ToSite], seconds: float = _ANSWER_SECONDS_MAX) -> site.CallDone:
        """Ask for something and wait until it is done.

        Raises:
            MachineLost: the machine is not there any more.
            DeadlineExceeded: no answer came.
            LockstepError: it could not be done.
        """
        number = next(self._numbers)
        message = question(number)
        self._wire.send(site.encode(message))
        what = f"machine {self.name} to answer ({type(message).__name__})"
        with self._changed:
            if not self._changed.wait_for(lambda: number in self._answers or self._gone, seconds):
                raise DeadlineExceeded(what, seconds)
            answer = self._answers.pop(number, None)
        if answer is None:
            raise MachineGone(f"machine {self.name} is lost: {self._gone}")
        if isinstance(answer, site.Refused):
            if answer.kind == PrivateFilesUnavailable.__name__:
                raise PrivateFilesUnavailable(f"on machine {self.name}: {answer.message}")
            kind = "" if answer.kind in ("LockstepError", "UsageError") else f"{answer.kind}: "
            raise LockstepError(f"on machine {self.name}: {kind}{answer.message}")
        return answer

    def leave(self, seconds: float = 10.0) -> None:
        """Let it go: its site ends, and leaves nothing."""
        self._watch.close()
        self._wire.close(0.0 if self._gone else seconds)

    # -- what is said

    def _receive(self, data: bytes) -> None:
        try:
            self._take(data)
        except Malformed as error:
            text = (
                f"what came is no message of a site ({error}); does the command, or a profile there, print something?"
            )
            raise MachineGone(text) from error

    def _take(self, data: bytes) -> None:
        for message in self._inbox.feed(data):
            if isinstance(message, site.Beat):
                if self._watch.heard():
                    self._wire.send(site.encode(site.Grant(message.number)))
            elif isinstance(message, (site.CallDone, site.Refused, site.Up)):
                self._answered(message)
            elif isinstance(message, site.Wrote):
                self._write(message)
            elif isinstance(message, site.Left):
                self._keep(message)
            elif isinstance(message, site.RelayMessage):
                self._relayed(message.data)
            elif not self._gone:
                self._tell(message)

    def _answered(self, message: site.CallDone | site.Refused | site.Up) -> None:
        with self._changed:
            if isinstance(message, site.Up):
                self._watch.heard()
                self.up = message
            else:
                self._answers[message.request] = message
            self._changed.notify_all()

    def _write(self, wrote: site.Wrote) -> None:
        """Keep what a task has written, where it would be if the task ran here."""
        if self._directory is not None:
            name = f"{wrote.task.replace(':', '-')}.{_SUFFIXES[wrote.kind]}"
            anew = wrote.begins and wrote.kind == "stacks"
            try:
                with (self._directory / wrote.kind / name).open("wb" if anew else "ab") as file:
                    file.write(wrote.data)
            except OSError as error:
                self._hear(Broke(f"the log of {wrote.task} cannot be written", error))

    def _keep(self, left: site.Left) -> None:
        """Keep what tasks leave, where it would be if they ran here."""
        if self._directory is None:
            return
        folder = self._directory / LEFT
        path = Path(os.path.normpath(folder / left.path))
        if not path.is_relative_to(folder):
            raise Malformed(f"a file {left.path} is outside of what tasks leave")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb" if left.begins else "ab") as file:
                file.write(left.data)
        except OSError as error:
            self._hear(Broke(f"what tasks leave cannot be written ({left.path})", error))

    def _tell(self, told: site.SiteBroken | TaskEvent) -> None:
        """Have an event heard, with times of this process's clock."""
        if isinstance(told, site.SiteBroken):
            error = LockstepError(f"{told.kind}: {told.message}")
            self._hear(Broke(f"on machine {self.name}: {told.what}", error))
        elif isinstance(told, Said):
            self._said(told)
        else:
            self._hear(self._timed_here(told))

    def _said(self, said: Said) -> None:
        try:
            self._hear(Said(said.who, self._timed_here(said.message)))
        except Malformed as error:
            self._hear(NoMessage(said.who, 0, str(error), time.monotonic()))

    def _timed_here(self, told: _Told) -> _Told:
        at = getattr(told, "at", None)
        return told if at is None else msgspec.structs.replace(told, at=self.clock.here(at))

    def _lost(self, why: str, at: float) -> None:
        with self._changed:
            self._gone = why
            self._changed.notify_all()
        self._hear(MachineSilent(self.name, why, at))
        self._relayed(b"")

    # -- a run

    def listen(self, hear: Callable[[Event], None]) -> None:
        """As of `Machine`."""
        self._hear = hear

    def sees(self, directory: Path) -> bool:
        """As of `Machine`: what is written here is looked for there."""
        proof, text = directory / f".lockstep-{secrets.token_hex(8)}", secrets.token_hex(16)
        try:
            proof.write_text(text)
            return self.ask(lambda number: site.Sought(number, str(proof), text)).found
        finally:
            proof.unlink(missing_ok=True)

    def open(self, share: MachineShare) -> Mapping[str, str]:
        """As of `Machine`."""
        self._directory = share.directory
        self.clock = better(self.clock, measured(lambda: self.ask(site.ClockQuery).at), time.monotonic())

        def question(number: int) -> site.Open:
            launcher = share.launcher()
            return site.Open(number, share.tasks, share.networked, self.address, launcher, self.way.cwd, self.way.path)

        return self.ask(question).addresses

    def relay(self, question: Callable[[int], site.StartRelay], hear: Callable[[bytes], None]) -> site.CallDone:
        """Have a relay started there for its tasks, and `hear` called with what that says; the answer has its ports."""
        self._relayed = hear
        return self.ask(question)

    def tell_relay(self, data: bytes) -> None:
        """Tell the relay there something, in order; nothing: that was all."""
        self._wire.send(site.encode(site.RelayMessage(data)))

    def launch(self, specs: Sequence[TaskSpec]) -> None:
        """As of `Machine`."""
        timed = tuple(msgspec.structs.replace(spec, clock=self.clock.offset) for spec in specs)
        self.ask(lambda number: site.Launch(number, timed))

    def send(self, who: Who, data: bytes) -> None:
        """As of `Machine`."""
        self._wire.send(site.encode(site.Send(who, data)))

    def signal(self, who: Sequence[Who], number: int, to: str) -> bool:
        """As of `Machine`; whether somebody is there is not known here."""
        self._wire.send(site.encode(site.Signal(tuple(who), number, to)))
        return not self._gone

    def half_said(self, who: Who) -> str:
        """As of `Machine`."""
        with contextlib.suppress(MachineGone, DeadlineExceeded):
            return self.ask(lambda number: site.Ask(number, who), _HALF_SECONDS_MAX).text
        return ""

    def end(self, who: Sequence[Who], grace: float | None, seconds: float = 30.0) -> frozenset[Who]:
        """As of `Machine`. What ran on a machine that is lost is ended by its own site, when the lease is over."""
        try:
            answer = self.ask(
                lambda number: site.EndTasks(number, tuple(who), grace, seconds), seconds + (grace or 0.0) + 5.0
            )
        except MachineGone:
            return frozenset()
        return frozenset(answer.left)

    def power_off(self) -> None:
        """As of `Machine`: its site kills itself, and its warden all that it has started."""
        self._wire.send(site.encode(site.Off()))

    def cut(self) -> None:
        """As of `Machine`."""
        if self._pull is None:
            raise LockstepError(f"nobody can pull the cable of machine {self.name}")
        self._pull()

    def close(self) -> Sequence[int]:
        """As of `Machine`."""
        try:
            if self._directory is None or self._gone:
                return ()
            return self.ask(site.Close).pids
        except MachineGone:
            return ()
        finally:
            self._directory = None
            self._relayed = lambda data: None
            self._hear = lambda event: None
