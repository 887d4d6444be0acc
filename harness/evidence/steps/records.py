"""The record of one step of one task: immutable, and small, since its arrays are elsewhere in the store."""

from __future__ import annotations

from typing import Literal

import msgspec

GIVEN, DRAWN = "given", "drawn"
"""The kinds of `StepPlace`."""

How = Literal["copies", "sum", "mean", "own"]


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """An array in a store: its dtype and shape, and where its bytes are.

    `file` is the number of the step in whose file they are, `begin` where in the arrays of that file. Of strings, whose
    dtype is `object`, the bytes are MessagePack.
    """

    dtype: str
    shape: tuple[int, ...]
    file: int
    begin: int
    size: int


class StepPlace(msgspec.Struct, frozen=True, array_like=True):
    """A place in a step: a call of `Strategy.run`, or a random operation in the function that its replicas run.

    Both are numbered in the order in which Python comes to them: `run` within the outermost call, `number` within the
    replica's function, or the leaf of its arguments. So a place is the same in each trace of a program, and in each of
    its processes.
    """

    kind: str
    run: int
    number: int


class PlaceValue(msgspec.Struct, frozen=True):
    """What passed a place in a step on one replica, by its number over all tasks.

    What passes it again, as in a loop, has a record of its own, in the order of execution. Of a random operation
    `operation` is its name, and `parameters` are what its draws depend on besides seeds and shape, such as bounds.
    """

    place: StepPlace
    replica: int
    arrays: tuple[Stored, ...]
    operation: str = ""
    parameters: tuple[Stored, ...] = ()


class HeldVariable(msgspec.Struct, frozen=True):
    """What a variable held when a step began.

    `name` is what Keras or TensorFlow calls it, and it is the `number`-th of that name, from 0. `how` tells what the
    copies are of the whole: each of them is the whole (`copies`, of which one is kept), they are its parts (`sum`,
    `mean`), or each replica has something of its own (`own`). A variable that `is_local` may rightly hold that.
    """

    name: str
    number: int
    how: How
    copies: tuple[Stored, ...]
    is_local: bool = False


class StepEvidence(msgspec.Struct, frozen=True):
    """What a task knows of a step: what it began with, and what passed in it.

    `index` counts steps from 1. `before` are the variables that nobody reports, and `reported` those that the
    program has reported since this step began, as they were at each report. `eager` is the number of the outermost
    eager call of `Strategy.run` that it was, from 1 in this process; None of any other step. `done` is whether it
    came to its end: a call that finds no more data does not. `trained` is whether it was a step: of a program that took
    no gradients yet, each call that runs replicas has evidence, such as one that builds variables; `by_hand` says that
    this was so. `own` is, of steps 1, 2, 4, 8 and so on, what variables then held of which each replica may have
    something of its own. `evaluations` are the calls after it that ran replicas and took no gradients, each by what
    passed in it. `worker` is the number of the worker that did it for a coordinator; None of any other step. Of a step
    that was taken out of a longer training, `original` is its number there, and `seen` is the frame of what was seen
    of it. `function` tells what was called from the program's other functions, and `numbers` are the arguments of that
    which are single numbers, by their places among its leaves, `arrays` those that have axes and are no replica's own.
    `fed` is whether others came from earlier calls. `order` has the functions of the process's first steps. `fills`
    says that this step is not judged: it is there so that a process makes another one as its next.
    """

    index: int
    before: tuple[HeldVariable, ...] = ()
    passed: tuple[PlaceValue, ...] = ()
    reported: tuple[tuple[HeldVariable, ...], ...] = ()
    eager: int | None = None
    done: bool = True
    trained: bool = True
    own: tuple[HeldVariable, ...] = ()
    evaluations: tuple[tuple[PlaceValue, ...], ...] = ()
    worker: int | None = None
    original: int | None = None
    seen: bytes = b""
    by_hand: bool = False
    function: str = ""
    numbers: tuple[tuple[int, float | int | bool], ...] = ()
    arrays: tuple[tuple[int, Stored], ...] = ()
    fed: bool = False
    order: tuple[str, ...] = ()
    fills: bool = False
