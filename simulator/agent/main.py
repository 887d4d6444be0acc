"""What runs inside a task: sets the process up, calls the user's function, and tells the parent."""

from __future__ import annotations

import faulthandler
import multiprocessing.process  # noqa: F401 - so that `semaphores` finds it in the forkserver's copy
import os
import signal
import sys
import time
import traceback
from typing import Any, NoReturn

import dill

from simulator.agent import graph_errors, semaphores, tracebacks
from simulator.agent.agent import Agent, adopt, sendable
from simulator.agent.faults import actions
from simulator.agent.process import fresh_signals, join_no_one, leave, redirect_output, renew_modules
from simulator.wire import control, payload
from simulator.wire.spec import TaskSpec

# As long as TensorFlow itself waits for an asynchronous checkpoint at the exit of a process.
BACKGROUND_SECONDS_MAX = 300.0


def main(spec: TaskSpec) -> NoReturn:
    """Entry point of a task's process. Never returns: the process ends here, with exit code 0 or 1."""
    join_no_one()
    fresh_signals(python=True)
    redirect_output(spec.log)
    _prepare_streams(spec)
    os.environ.clear()
    os.environ.update(spec.environ)
    renew_modules()
    semaphores.name_as_asked()
    agent = Agent(spec, actions.perform)
    adopt(agent)
    agent.report_thread_failures()
    try:
        _serve(agent) if spec.server else _call(agent)
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt too: the function did not return
        _report(agent, error)
        leave(1)
    leave(0)


def _serve(agent: Agent) -> None:
    from simulator.agent import devices
    from simulator.agent.private_files import enter_given_view

    enter_given_view()
    _configure(agent)
    # Held in a variable: the server stops when it is collected.
    server = devices.start_server()
    agent.send(control.Ready(at=time.monotonic()))
    agent.receive()
    del server


def _call(agent: Agent) -> None:
    message = agent.receive()
    if not isinstance(message, control.Proceed):
        return  # the parent has gone, or gave up before it began
    _configure(agent)
    function, args, kwargs = payload.unpack(message.call)
    agent.send(control.Ready(at=time.monotonic()))
    if agent.spec.hooks:
        from simulator.agent.faults import hooks

        hooks.install(agent, agent.spec.hooks)
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
    if "simulator.agent.saves.saves" in sys.modules:
        from simulator.agent.saves import saves

        saves.wait_background(BACKGROUND_SECONDS_MAX)


def _configure(agent: Agent) -> None:
    if agent.spec.tensorflow:
        from simulator.agent import devices

        agent.computes_on(devices.configure(agent.spec))


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
    tracebacks.leave_out_own(error)
    said = graph_errors.readable(str(error))
    whole = "".join(traceback.format_exception(error))
    text = sendable(whole.replace(str(error), graph_errors.without_own(str(error))) if said else whole)
    sys.stderr.write(text)
    bases = tuple(kind.__name__ for kind in type(error).__mro__ if kind is not object)
    kind = type(error).__name__
    agent.send(control.Error(kind=kind, bases=bases, message=sendable(said), traceback=text, at=time.monotonic()))
