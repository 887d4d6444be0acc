"""Typed messages between the parent and the agent in each task, over a Unix socket.

A message on the wire is a four-byte little-endian length and that many bytes of MessagePack. The agent sends the
messages of `FromTask`, the parent those of `ToTask`.
"""

from __future__ import annotations

import socket
from typing import Any

import msgspec

from simulator.wire import framing


class Hello(msgspec.Struct, frozen=True, tag=True):
    """First message of a task: who it is."""

    task: str
    incarnation: int
    pid: int
    # What only those know that the run has started.
    key: str = ""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The task's server listens, or its function is loaded and about to be called."""

    at: float


class Computes(msgspec.Struct, frozen=True, tag=True):
    """What TensorFlow computes on in this task: one description for each physical device."""

    devices: tuple[str, ...]
    at: float


class StepDone(msgspec.Struct, frozen=True, tag=True):
    """The task finished training step `number` (from 1), with this loss if that is known."""

    number: int
    at: float
    loss: float | None = None


class Counting(msgspec.Struct, frozen=True, tag=True):
    """The steps from now on, starting with 1, are counted in this way."""

    by: str
    at: float


class Begins(msgspec.Struct, frozen=True, tag=True):
    """The task takes its first gradient, with `state` in what it trains; see `simulator.agent.steps.state`."""

    state: int
    at: float


class SaveBegun(msgspec.Struct, frozen=True, tag=True):
    """The task has begun to save or restore something; see `simulator.agent.saves.saves`.

    Attributes:
        number: tells this save from others that the process has under way.
        kind: the outermost call, such as `tf.train.CheckpointManager.save`.
        restores: whether it reads.
        path: where, or None if the call does not say so yet, or has nothing to restore.
        background: whether TensorFlow's own thread does it, for a call that has returned before.
        at: when the outermost call began.
        state: of what the task trains, as of `Begins`; None where that is not known.
    """

    number: int
    kind: str
    restores: bool
    path: str | None
    background: bool
    at: float
    state: int | None = None


class SaveEnded(msgspec.Struct, frozen=True, tag=True):
    """What `SaveBegun` with this number has announced is over.

    Attributes:
        number: that number.
        path: where, as far as it is known now.
        bytes: size of the files that were written, or None.
        failed: class of the exception with which it ended, or None.
        handed_over: whether the data is yet to be written, by a thread of TensorFlow's.
        at: when the outermost call ended.
    """

    number: int
    path: str | None
    bytes: int | None
    failed: str | None
    handed_over: bool
    at: float


class AtGate(msgspec.Struct, frozen=True, tag=True):
    """The task has come to a gate that was set for it, and waits there for `Continue`."""

    gate: str
    at: float


class Passed(msgspec.Struct, frozen=True, tag=True):
    """The task has come to a point at which faults may strike.

    `what` is empty, or what is done there to a file, its name, and of a file that is renamed the name that it had.
    """

    point: str
    what: tuple[str, ...]
    at: float


class Acted(msgspec.Struct, frozen=True, tag=True):
    """What came of an `Action`: `effect` is what the agent has measured."""

    fault: str
    effect: dict[str, Any]
    at: float


class Result(msgspec.Struct, frozen=True, tag=True):
    """The function returned; `value` is its dill pickle."""

    value: bytes
    at: float


class Error(msgspec.Struct, frozen=True, tag=True):
    """The function, or preparing for it, raised."""

    kind: str
    bases: tuple[str, ...]
    message: str
    traceback: str
    at: float


class ThreadFailed(msgspec.Struct, frozen=True, tag=True):
    """A helper thread of the task ended with an exception that nobody caught."""

    thread: str
    kind: str
    message: str
    traceback: str
    at: float


class Proceed(msgspec.Struct, frozen=True, tag=True):
    """To the task: call the function (its dill pickle with the arguments)."""

    call: bytes


class Release(msgspec.Struct, frozen=True, tag=True):
    """To the task: everybody is done, exit."""


class Action(msgspec.Struct, frozen=True):
    """What the agent shall do at a gate before it goes on: an action of `simulator.agent.faults`."""

    kind: str
    fault: str
    arguments: dict[str, Any] = {}


class Continue(msgspec.Struct, frozen=True, tag=True):
    """To the task: do this, in order, and go on from the gate."""

    actions: tuple[Action, ...] = ()


FromTask = (
    Hello
    | Ready
    | Computes
    | Counting
    | StepDone
    | Begins
    | SaveBegun
    | SaveEnded
    | AtGate
    | Passed
    | Acted
    | Result
    | Error
    | ThreadFailed
)
ToTask = Proceed | Continue | Release

_FROM_TASK = msgspec.msgpack.Decoder(FromTask)
_TO_TASK = msgspec.msgpack.Decoder(ToTask)


def encode(message: FromTask | ToTask) -> bytes:
    """Frame one message."""
    return framing.encode(message)


class ControlInbox(framing.Inbox[FromTask]):
    """Turns the bytes received from one task, in whatever pieces they come, into messages."""

    def __init__(self) -> None:
        super().__init__(_FROM_TASK, large=(Result.__name__,))


def receive(connection: socket.socket) -> ToTask | None:
    """Block in the task until the parent's next message; `None` when the parent has gone."""
    head = _exactly(connection, framing.LENGTH.size)
    if head is None:
        return None
    payload = _exactly(connection, framing.LENGTH.unpack(head)[0])
    return None if payload is None else _TO_TASK.decode(payload)


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)
