"""Counts the training steps of a task and announces each one, whoever notices them."""

from __future__ import annotations

import contextlib
import os
import threading
import time

from simulator.agent.agent import Agent
from simulator.agent.attach import attach, begin
from simulator.wire import control

FUNCTION = "outermost calls of tf.functions"
GRADIENT = "gradients taken in the program's calls"
CLOSURE = "functions executed by ClusterCoordinator"
ON_BATCH = "Keras train_on_batch"
FIT = "Keras fit"
EPOCHS = "Keras fit, one step for each epoch"
EXPLICIT = "simulator.step()"
# From the vaguest to the most telling; a later one puts an end to those before it.
_ORDER = (FUNCTION, GRADIENT, CLOSURE, ON_BATCH, EPOCHS, FIT, EXPLICIT)
_ALLOWED = {
    "auto": set(_ORDER),
    "fit": {ON_BATCH, FIT, EPOCHS},
    "gradient": {GRADIENT, CLOSURE},
    "function": {FUNCTION, CLOSURE},
    "explicit": {EXPLICIT},
}


class StepCounter:
    """The steps of one process. Only one source counts; when a more telling one appears, it starts at 1.

    Attributes:
        agent: announces them.
    """

    def __init__(self, connected: Agent, allowed: str) -> None:
        self.agent = connected
        self._allowed = _ALLOWED[allowed]
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._source: str | None = None
        self._steps = 0
        # Held while a step is announced, and so for as long as the task stands at a gate. What the agent does there may
        # call a function that counts.
        self._turn = threading.RLock()

    def wait_turn(self) -> None:
        """Return as soon as no other thread of this task stands at a gate."""
        if os.getpid() == self._process:
            with self._turn:
                pass

    def prefer(self, source: str) -> bool:
        """Count by `source` from now on, unless a more telling one has been seen; whether it is the one that counts."""
        if source not in self._allowed or os.getpid() != self._process:  # a fork is not the task
            return False
        with self._lock:
            if self._source is None or _ORDER.index(source) > _ORDER.index(self._source):
                self._source, self._steps = source, 0
                with contextlib.suppress(OSError):
                    self.agent.send(control.Counting(by=source, at=time.monotonic()))
            return self._source == source

    def count(self, source: str, steps: int = 1, loss: float | None = None) -> None:
        """Announce so many more steps, one by one, if `source` is the one that counts; stops at gates.

        One thread at a time: while one stands at a gate, others do not announce anything. `loss` is that of the last.
        """
        for index in range(steps):
            if not self.prefer(source):
                return
            with self._turn:
                if not self.prefer(source):  # another one has come while this one waited
                    return
                with self._lock:
                    self._steps += 1
                    number = self._steps
                with contextlib.suppress(OSError):  # the run is over, or knows a later incarnation
                    self.agent.step(number, loss if index == steps - 1 else None)


_counter: StepCounter | None = None


def counter() -> StepCounter | None:
    """The counter of this process; `None` where it does not speak for a task."""
    global _counter  # noqa: PLW0603 - one for the process
    if _counter is None and (connected := attach()) is not None:
        begin(connected)  # of a program without TensorFlow, this is where it is known that there will be steps
        _counter = StepCounter(connected, os.environ.get("LOCKSTEP_STEPS", "auto"))
    return _counter


def step() -> None:
    """Say that one more training step is done: for programs under `lockstep run`. Does nothing outside of Lockstep.

    Call it in each client task after each step. From the first call on nothing else is counted as a step.
    """
    if (own := counter()) is not None:
        own.count(EXPLICIT)
