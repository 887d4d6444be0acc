"""The task's side of the control connection; a process has one."""

from __future__ import annotations

import os
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence

from simulator.agent.process import leave
from simulator.wire import control
from simulator.wire.spec import TaskSpec


class Agent:
    """The task's side of the control connection. One per process; see `current`.

    Args:
        spec: of the task.
        perform: does what the parent asks for at a gate.
    """

    def __init__(self, spec: TaskSpec, perform: Callable[[Agent, Sequence[control.Action]], None]) -> None:
        self.spec = spec
        self._perform = perform
        self.pid = os.getpid()
        # What the task computes on, once TensorFlow has been prepared.
        self.devices: tuple[str, ...] = ()
        # A handler of signals may send while its own thread does.
        self._lock = threading.RLock()
        self._outbox: deque[bytes] = deque()
        self._sending = False
        self._gates = frozenset(spec.gates)
        self._at_gate = threading.Lock()
        self._connect()

    def send(self, message: control.FromTask) -> None:
        """Send one message to the parent; safe from any thread, and from a handler of signals."""
        with self._lock:
            self._outbox.append(control.encode(message))
            if self._sending:
                return  # the call that this one has interrupted sends it, after its own message
            self._sending = True
            try:
                if not self._is_there():
                    self._connection.detach()
                    self._connect()
                while self._outbox:
                    self._connection.sendall(self._outbox.popleft())
            finally:
                self._sending = False

    def _connect(self) -> None:
        spec = self.spec
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.connect(spec.control)
        self._inode = os.fstat(self._connection.fileno()).st_ino
        hello = control.Hello(task=spec.task, incarnation=spec.incarnation, pid=self.pid, key=spec.key)
        self._connection.sendall(control.encode(hello))

    def _is_there(self) -> bool:
        """Whether the connection is still open; a program may close all descriptors, and its own get their numbers."""
        try:
            return os.fstat(self._connection.fileno()).st_ino == self._inode
        except OSError:
            return False

    def receive(self) -> control.ToTask | None:
        """Wait for the parent's next message; `None` when the parent has gone."""
        return control.receive(self._connection)

    def computes_on(self, devices: tuple[str, ...]) -> None:
        """Tell the parent what TensorFlow computes on in this process: one description for each physical device."""
        self.devices = devices
        self.send(control.Computes(devices=devices, at=time.monotonic()))

    def step(self, number: int, loss: float | None = None) -> None:
        """Tell the parent that training step `number` is done, and stop there if gate `step:number` is set.

        Args:
            number: from 1.
            loss: of that step, if it is known.
        """
        self.send(control.StepDone(number=number, at=time.monotonic(), loss=loss))
        self.gate(f"step:{number}")

    def gate(self, name: str) -> None:
        """Where gate `name` is set for this task, wait until the parent has let it go on; else do nothing.

        A gate such as `step:*` is at every step, one such as `step:3@1` in incarnation 1 only.
        """
        every = f"{name.partition(':')[0]}:*" in self._gates
        for gate in (name, f"{name}@{self.spec.incarnation}"):
            if gate in self._gates or (every and gate == name):
                self._stand(gate)

    def _stand(self, name: str) -> None:
        with self._at_gate:  # one thread at a time waits for its answer
            self.send(control.AtGate(gate=name, at=time.monotonic()))
            message = self.receive()
        if message is None:
            leave(1)  # the parent has gone
        if isinstance(message, control.Continue) and message.actions:
            self._perform(self, message.actions)

    def report_thread_failures(self) -> None:
        """An exception that ends a helper thread fails the run instead of a line in the log."""

        def report(args: threading.ExceptHookArgs) -> None:
            threading.__excepthook__(args)
            if args.exc_type is SystemExit:
                return
            text = sendable("".join(traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback)))
            self.send(
                control.ThreadFailed(
                    thread=args.thread.name if args.thread else "?",
                    kind=args.exc_type.__name__,
                    message=sendable(str(args.exc_value)),
                    traceback=text,
                    at=time.monotonic(),
                )
            )

        threading.excepthook = report


_current: Agent | None = None


def current() -> Agent | None:
    """The agent of this process, or `None` outside a Lockstep task."""
    return _current


def now() -> float:
    """The time in seconds of CLOCK_MONOTONIC of the process that holds the run, which may be on another machine."""
    return time.monotonic() - (0.0 if _current is None else _current.spec.clock)


def adopt(agent: Agent) -> None:
    """Make this the agent of this process."""
    global _current  # noqa: PLW0603 - one agent per process, for as long as the process lives
    _current = agent


def sendable(text: str) -> str:
    """Without lone surrogates, as in the name of a file that is not UTF-8: no message can hold them."""
    return text.encode(errors="backslashreplace").decode()
