"""The machine on which this process is: held ports, the control socket, processes, and the warden who outlives them."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from simulator.errors import DeadlineExceeded
from simulator.helpers.warden import MARK_VARIABLE, kill_marked, remove_tree
from simulator.kernel import catches, group_members, now_ticks
from simulator.machines.local.host import cores
from simulator.machines.local.orphans import orphans
from simulator.machines.local.ports import hold_ports
from simulator.machines.local.task_listener import TaskListener
from simulator.machines.local.uninterrupted import uninterrupted
from simulator.machines.local.warden import warden
from simulator.machines.protocol import (
    CATCHING,
    GROUP,
    LEFT,
    LOCAL,
    PROCESS,
    Event,
    MachineFacts,
    MachineShare,
    Process,
)
from simulator.wire.events import Launched, Who
from simulator.wire.spec import SEMAPHORES_VARIABLE, TaskSpec

# How often a process group is looked at whose end nobody announces.
_LOOK_SECONDS = 0.01


def stem_of(task: str) -> str:
    """The name of a task's files: `worker-1` of `worker:1`."""
    return task.replace(":", "-")


@dataclass
class LocalMachine:
    """This machine's part in one run.

    Attributes:
        directory: for the control socket, logs and stacks; the last two are folders of it.
        start: starts the process of a task.
        address: by which tasks reach each other's servers.
        name: of the machine.
        ports: whether servers need ports that are held; they do not where each task has a host of its own.
    """

    directory: Path
    start: Callable[[TaskSpec], Process]
    address: str = "127.0.0.1"
    name: str = LOCAL
    ports: bool = True
    _hear: Callable[[Event], None] = lambda event: None
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _processes: dict[Who, Process] = field(default_factory=dict)
    # When its end was seen, as of `now_ticks`.
    _ended: dict[Who, int] = field(default_factory=dict)
    # Notified when a process has ended.
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _ear: TaskListener | None = None

    @property
    def facts(self) -> MachineFacts:
        """What is known of it."""
        return MachineFacts(cores=cores())

    @property
    def clock_error(self) -> float:
        """None: it is this process's clock."""
        return 0.0

    @property
    def there(self) -> bool:
        """Always: it is this process's own."""
        return True

    @property
    def dead_at(self) -> float:
        """At no time."""
        return 0.0

    def power_off(self) -> None:
        """Nobody asks: faults of machines are refused where there is only this one."""
        raise NotImplementedError

    def cut(self) -> None:
        """As `power_off`."""
        raise NotImplementedError

    @property
    def silent(self) -> bool:
        """Never."""
        return False

    def listen(self, hear: Callable[[Event], None]) -> None:
        """As of `Machine`."""
        self._hear = hear

    def sees(self, directory: Path) -> bool:
        """Every one."""
        return True

    def open(self, share: MachineShare) -> Mapping[str, str]:
        """As of `Machine`.

        Raises:
            PortsUnavailable: no port could be held.
        """
        ports = self._stack.enter_context(hold_ports(share.networked if self.ports else ()))
        self._mark = uuid.uuid4().hex
        self._key = secrets.token_hex()
        warden.watch_mark(self._mark)
        # Tasks are killed, or leave without the exit handlers that would remove their temporary files.
        self._temporary = self.directory.with_name(f"{self.directory.name}-tmp")
        self._temporary.mkdir()
        control = self.directory / "control.sock"
        self._ear = TaskListener(control, self._hear, share.tasks, self._key, self._see_end)
        orphans.begin()
        self._stack.callback(control.unlink)
        self._stack.callback(self._ear.close)
        return {task: f"{self.address}:{port}" for task, port in ports.items()}

    def close(self) -> Sequence[int]:
        """As of `Machine`."""
        if self._ear is None:
            self._stack.close()
            return ()
        self._ear = None
        try:
            return [*kill_marked(self._mark), *orphans.end()]
        finally:
            warden.forget_mark(self._mark)
            remove_tree(self._temporary)
            self._stack.close()

    # -- processes

    def launch(self, specs: Sequence[TaskSpec]) -> None:
        """As of `Machine`. Ctrl-C cannot come between the fork of a process and the moment when it is known."""
        for spec in specs:
            uninterrupted(partial(self._launch, self._completed(spec)))

    def _completed(self, spec: TaskSpec) -> TaskSpec:
        stem = stem_of(spec.task)
        # Of its own, as on machines that have one task each; there when it comes again.
        temporary = self._temporary / stem
        temporary.mkdir(exist_ok=True)
        return msgspec.structs.replace(
            spec,
            control=str(self.directory / "control.sock"),
            log=str(self.directory / "logs" / f"{stem}.log"),
            stacks=str(self.directory / "stacks" / f"{stem}.txt"),
            left=str(self.directory / LEFT),
            environ={
                MARK_VARIABLE: self._mark,
                SEMAPHORES_VARIABLE: f"/mp-{self._mark}",
                "TMPDIR": str(temporary),
                **spec.environ,
            },
            key=self._key,
        )

    def _launch(self, spec: TaskSpec) -> None:
        assert self._ear is not None
        who = Who(spec.task, spec.incarnation)
        self._ear.expect(who)
        process = self.start(spec)
        try:
            warden.watch_group(process.pid)
            self._processes[who] = process
            self._ear.watch(who, process)
        except BaseException:
            self._processes.pop(who, None)
            process.end(0.0)
            raise
        self._hear(Launched(who, process.pid))

    def _see_end(self, who: Who) -> None:
        """Nobody is led by this process any more; its number may be given to others."""
        warden.forget_group(self._processes[who].pid)
        with self._changed:
            self._ended[who] = now_ticks()
            self._changed.notify_all()

    # -- talking

    def send(self, who: Who, data: bytes) -> None:
        """As of `Machine`."""
        if self._ear is not None and (connection := self._ear.connection(who)) is not None:
            connection.sendall(data)

    def half_said(self, who: Who) -> str:
        """As of `Machine`."""
        connection = None if self._ear is None else self._ear.connection(who)
        return "" if connection is None else connection.half_said

    # -- the end

    def signal(self, who: Sequence[Who], number: int, to: str) -> bool:
        """As of `Machine`."""
        met = [self._signal(one, number, to) for one in who]
        return any(met)

    def _signal(self, who: Who, number: int, to: str) -> bool:
        if (process := self._processes.get(who)) is None:
            return False
        if to != GROUP and (who in self._ended or (to == CATCHING and not catches(process.pid, number))):
            return False
        if to == GROUP and who in self._ended and not self._has_left(who):
            return False
        try:
            (os.killpg if to == GROUP else os.kill)(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _has_left(self, who: Who) -> bool:
        """Whether one that has ended has left somebody in its group; one that began later may be a stranger's."""
        group = self._processes[who].pid
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return bool(group_members(group, until=self._ended[who]))

    def end(self, who: Sequence[Who], grace: float | None, seconds: float = 30.0) -> frozenset[Who]:
        """As of `Machine`. KILL also ends stopped processes."""
        if grace is not None:
            for one in self._living(who):
                self._signal(one, signal.SIGTERM, GROUP)
                self._signal(one, signal.SIGCONT, GROUP)  # a stopped process cannot act on TERM
            with self._changed:
                self._changed.wait_for(lambda: not self._living(who), grace)
        # Also after a clean exit: what the task started and left behind is in its group.
        ended = set(self._ended)
        met = {one for one in who if self._signal(one, signal.SIGKILL, GROUP)}
        groups = {one for one in who if one in met or one in self._living(who)}
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._living(who) or any(group_members(self._processes[one].pid) for one in groups):
                if time.monotonic() > deadline:
                    raise DeadlineExceeded("tasks and what they had started to end after SIGKILL", seconds)
                for one in self._living(who):
                    # Again: a process that had just been forked leads no group yet, and the first signal met nobody.
                    self._signal(one, signal.SIGKILL, PROCESS)
                    self._signal(one, signal.SIGKILL, GROUP)
                # The end of a task is announced, that of a process which it had started is not.
                self._changed.wait(_LOOK_SECONDS)
        return frozenset(met & ended)

    def end_all(self) -> None:
        """SIGKILL every process that was started here, and wait for the proof."""
        self.end(list(self._processes), None)

    def _living(self, who: Sequence[Who]) -> list[Who]:
        return [one for one in who if one in self._processes and one not in self._ended]
