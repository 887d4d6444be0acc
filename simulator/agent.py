"""What runs inside a task: sets the process up, calls the user's function, and tells the parent."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from types import TracebackType
from typing import Any, NoReturn

import dill
import msgspec

from simulator import control
from simulator.launch import payload
from simulator.launch.process import fresh_signals, join_no_one, redirect_output
from simulator.topology import Devices

__all__ = ["Agent", "TaskSpec", "adopt", "current", "main"]

HEARTBEAT_SECONDS = 1.0
# As long as TensorFlow itself waits for an asynchronous checkpoint at the exit of a process.
BACKGROUND_SECONDS_MAX = 300.0


class TaskSpec(msgspec.Struct, frozen=True):
    """Everything a task's process needs to know before it is told what to call."""

    task: str
    incarnation: int
    control: str
    log: str
    stacks: str
    environ: dict[str, str]
    devices: str
    rank: int
    threads: int
    tensorflow: bool
    server: bool
    # Points of the program at which the task stops until the parent lets it go on, such as `step:20`.
    gates: tuple[str, ...] = ()
    # What faults have to patch before the program begins; see `simulator.faults.in_task`.
    hooks: tuple[str, ...] = ()
    # By which the parent knows that it has started this process.
    key: str = ""


class Agent:
    """The task's side of the control connection. One per process; see `current`."""

    def __init__(self, spec: TaskSpec) -> None:
        self.spec = spec
        self.pid = os.getpid()
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.connect(spec.control)
        # A handler of signals may send while its own thread does.
        self._lock = threading.RLock()
        self._outbox: deque[bytes] = deque()
        self._sending = False
        self._gates = frozenset(spec.gates)
        self._at_gate = threading.Lock()
        self.send(control.Hello(task=spec.task, incarnation=spec.incarnation, pid=self.pid, key=spec.key))

    def send(self, message: control.FromTask) -> None:
        """Send one message to the parent; safe from any thread, and from a handler of signals."""
        with self._lock:
            self._outbox.append(control.encode(message))
            if self._sending:
                return  # the call that this one has interrupted sends it, after its own message
            self._sending = True
            try:
                while self._outbox:
                    self._connection.sendall(self._outbox.popleft())
            finally:
                self._sending = False

    def receive(self) -> control.ToTask | None:
        """Wait for the parent's next message; `None` when the parent has gone."""
        return control.receive(self._connection)

    def step(self, number: int) -> None:
        """Tell the parent that training step `number` is done, and stop there if gate `step:number` is set."""
        self.send(control.Step(number=number, at=time.monotonic()))
        self.gate(f"step:{number}")

    def gate(self, name: str) -> None:
        """Where gate `name` is set for this task, wait until the parent has let it go on; else do nothing.

        A gate such as `step:*` is at every step.
        """
        if name not in self._gates and f"{name.partition(':')[0]}:*" not in self._gates:
            return
        with self._at_gate:  # one thread at a time waits for its answer
            self.send(control.AtGate(gate=name, at=time.monotonic()))
            message = self.receive()
        if message is None:
            _leave(1)  # the parent has gone
        if isinstance(message, control.Continue) and message.actions:
            from simulator.faults import in_task

            in_task.perform(self, message.actions)

    def start_heartbeat(self) -> None:
        """Send a heartbeat every second from a helper thread, for as long as the process lives."""

        def beat() -> None:
            pause = threading.Event()
            while not pause.wait(HEARTBEAT_SECONDS):
                try:
                    self.send(control.Heartbeat(at=time.monotonic()))
                except OSError:
                    return

        threading.Thread(target=beat, name="lockstep-heartbeat", daemon=True).start()

    def report_thread_failures(self) -> None:
        """An exception that ends a helper thread fails the run instead of a line in the log."""

        def report(args: threading.ExceptHookArgs) -> None:
            threading.__excepthook__(args)
            if args.exc_type is SystemExit:
                return
            text = _sendable("".join(traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback)))
            self.send(
                control.ThreadFailed(
                    thread=args.thread.name if args.thread else "?",
                    kind=args.exc_type.__name__,
                    message=_sendable(str(args.exc_value)),
                    traceback=text,
                    at=time.monotonic(),
                )
            )

        threading.excepthook = report


_current: Agent | None = None


def current() -> Agent | None:
    """The agent of this process, or `None` outside a Lockstep task."""
    return _current


def adopt(agent: Agent) -> None:
    """Make this the agent of this process."""
    global _current  # noqa: PLW0603 - one agent per process, for as long as the process lives
    _current = agent


def main(spec: TaskSpec) -> NoReturn:
    """Entry point of a task's process. Never returns: the process ends here, with exit code 0 or 1."""
    join_no_one()
    fresh_signals(python=True)
    redirect_output(spec.log)
    _prepare_streams(spec)
    os.environ.clear()
    os.environ.update(spec.environ)
    # Whoever has asked for it in the forkserver has had that of the parent remembered.
    tempfile.tempdir = None
    agent = Agent(spec)
    adopt(agent)
    agent.report_thread_failures()
    agent.start_heartbeat()
    try:
        _serve(agent) if spec.server else _call(agent)
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt too: the function did not return
        _report(agent, error)
        _leave(1)
    _leave(0)


def _serve(agent: Agent) -> None:
    from simulator import _tensorflow

    _configure(agent.spec)
    # Held in a variable: the server stops when it is collected.
    server = _tensorflow.start_server()
    agent.send(control.Ready(at=time.monotonic()))
    agent.receive()
    del server


def _call(agent: Agent) -> None:
    message = agent.receive()
    if not isinstance(message, control.Proceed):
        return  # the parent has gone, or gave up before it began
    _configure(agent.spec)
    function, args, kwargs = payload.unpack(message.call)
    agent.send(control.Ready(at=time.monotonic()))
    if agent.spec.hooks:
        from simulator.faults import in_task

        in_task.install(agent, agent.spec.hooks)
    agent.gate("step:0")
    value = function(*args, **kwargs)
    _let_saves_end()
    try:
        pickled = dill.dumps(_portable(value), recurse=True)
    except Exception as error:
        raise TypeError(
            f"the value that the function returned in {agent.spec.task} cannot be sent to the parent "
            f"({type(value).__name__}: {error}); return plain Python or NumPy data"
        ) from error
    agent.send(control.Result(value=pickled, at=time.monotonic()))
    # Leaving now would break collectives, and the coordination service, of peers that are still at work.
    agent.receive()


def _let_saves_end() -> None:
    # TensorFlow joins its thread of asynchronous checkpoints at the exit of Python, which `_leave` cuts short.
    if "simulator.steps.saves" in sys.modules:
        from simulator.steps import saves

        saves.wait_background(BACKGROUND_SECONDS_MAX)


def _configure(spec: TaskSpec) -> None:
    if spec.tensorflow:
        from simulator import _tensorflow

        _tensorflow.configure(Devices.parse(spec.devices), spec.rank, spec.threads)


def _prepare_streams(spec: TaskSpec) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
    faulthandler.enable(file=2)
    # A C-level handler: it prints all stacks even while another thread holds the GIL in native code. The file stays
    # open for as long as the process lives.
    stacks = os.open(spec.stacks, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    faulthandler.register(signal.SIGUSR2, file=stacks, all_threads=True, chain=False)


def _portable(value: Any) -> Any:
    """Replace TensorFlow tensors and variables with NumPy arrays, which the parent can read without TensorFlow."""
    if isinstance(value, dict):
        return {key: _portable(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_portable(item) for item in value)
    if type(value).__module__.startswith(("tensorflow", "keras", "tf_keras")) and hasattr(value, "numpy"):
        return value.numpy()
    return value


def _report(agent: Agent, error: BaseException) -> None:
    text = _sendable("".join(traceback.format_exception(type(error), error, _without_agent(error.__traceback__))))
    sys.stderr.write(text)
    bases = tuple(kind.__name__ for kind in type(error).__mro__ if kind is not object)
    said = _sendable(str(error))
    agent.send(control.Error(kind=type(error).__name__, bases=bases, message=said, traceback=text, at=time.monotonic()))


def _sendable(text: str) -> str:
    """Without lone surrogates, as in the name of a file that is not UTF-8: no message can hold them."""
    return text.encode(errors="backslashreplace").decode()


def _without_agent(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__ and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _leave(code: int) -> NoReturn:
    # Not sys.exit: a forgotten non-daemon thread must not keep the task alive, and TensorFlow's own shutdown would wait
    # for peers that may be gone.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
