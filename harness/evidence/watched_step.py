"""What a watched step has left: every operation that ran in it, where it was made, and the values it gave.

One file per client process, written when the step ends. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import zlib
from collections.abc import Set as AbstractSet

import msgspec

from harness.evidence.message_file import MessageFile
from harness.evidence.trace import Array

BATCHES = "Batches"
"""The type of an input that was computed for the batch of each replica apart, of which the operations are not noted."""
PYTHON = "PyFunc"
"""That of what the program's own Python gives, which a graph calls."""
REPLICA, UPDATE, OUTER = "replica", "update", "outer"
"""Where Python made an operation: in a replica's function, in the update of a variable, or anywhere else."""
SHARD, APART = "shard", "apart"
"""Of what a line makes for each shard of a variable, and of what belongs to nothing in the step that this one is held
against: nobody knows it before.
"""


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One line of Python that takes part in making an operation; `own` says that it is the program's own code."""

    file: str
    line: int
    function: str
    own: bool = False


class Op(msgspec.Struct, frozen=True, array_like=True):
    """One operation, or one input that arrived from where nothing is watched (`type` is `Input`, BATCHES or PYTHON).

    Attributes:
        number: in the order in which Python made them, from 1.
        type: as TensorFlow calls it.
        name: in its graph, empty where it was carried out at once.
        zone: REPLICA, UPDATE or OUTER.
        index: of the replica among all, or of the copy within this process that is updated; 0 in OUTER.
        frames: indices into `WatchedStep.frames`, outermost first, of what it belongs to: those inside of the
            replica's or the update's function.
        caller: the index of the innermost frame that is the program's own, None if there is none.
        inputs: numbers of tensors, 0 for what is not watched, such as resources.
        outputs: numbers of tensors.
        variable: of an operation on a variable its name, without what tells its copies apart.
        differentiates: whether it is part of a gradient.
        graph: in which it was made, by the order in which graphs were; 0 if it was carried out at once.
        seen: whether its outputs were looked at.
        forms: of its outputs as `form_of` says, empty where that is not known before they are there.
    """

    number: int
    type: str
    name: str
    zone: str
    index: int
    frames: tuple[int, ...]
    caller: int | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    variable: str = ""
    differentiates: bool = False
    graph: int = 0
    seen: bool = True
    forms: tuple[str, ...] = ()


class TensorValue(msgspec.Struct, frozen=True, array_like=True):
    """One value of a tensor: the first, second, ... that it had in the step.

    Of a large one, of this `shape`, `array` is a sketch: of every row a few sums.
    """

    tensor: int
    array: Array
    digest: int
    shape: tuple[int, ...] | None = None


class WatchedVariable(msgspec.Struct, frozen=True):
    """A variable: whether its copies are kept alike (`mirrored`), are reduced when read (`on_read`), or it has one.

    `aggregation` is how they are reduced, by TensorFlow's name: NONE, SUM, MEAN or ONLY_FIRST_REPLICA. `made` is the
    index of the program's own frame that made it. `rows` is the size of its first axis, 0 if it has none.
    """

    name: str
    kind: str = "plain"
    aggregation: str = "NONE"
    made: int | None = None
    rows: int = 0


class TakenApart(msgspec.Struct, frozen=True, array_like=True):
    """Where the program has taken the values of replicas apart: the index of its own frame, and their tensors."""

    caller: int
    tensors: tuple[int, ...]


class WatchedStep(msgspec.Struct, frozen=True):
    """A watched step of one client."""

    task: str
    step: int
    replicas: int
    frames: tuple[Frame, ...]
    ops: tuple[Op, ...]
    values: tuple[TensorValue, ...]
    variables: tuple[WatchedVariable, ...] = ()
    # By name of a layer or an optimizer of Keras the index of the frame that made it.
    made: dict[str, int] = {}
    # Tensors of which a tape has taken gradients.
    targets: tuple[int, ...] = ()
    taken_apart: tuple[TakenApart, ...] = ()
    # What could not be looked at, in sentences.
    blind: tuple[str, ...] = ()
    # In how many runs of the step this was seen, whose roundings may differ.
    runs: int = 1


_FILED = MessageFile(WatchedStep)
write_watched, read_watched = _FILED.write, _FILED.read


def form_of(dtype: str, shape: tuple[int, ...]) -> str:
    """What all values have in common that could be the same."""
    return f"{dtype}{list(shape)}"


def joined(first: WatchedStep, again: WatchedStep, looked: AbstractSet[int]) -> WatchedStep:
    """What was seen of a step in two runs of it, in the second one of the operations with these numbers.

    Raises:
        ValueError: the second run has made other operations than the first.
    """
    if [(op.type, op.name, op.zone, op.index) for op in first.ops] != [
        (op.type, op.name, op.zone, op.index) for op in again.ops
    ]:
        raise ValueError(f"{first.task} made other operations when it was watched again")
    added = {number for op in first.ops if not op.seen and op.number in looked for number in op.outputs}
    return msgspec.structs.replace(
        first,
        ops=tuple(
            msgspec.structs.replace(op, seen=True) if not op.seen and op.number in looked else op for op in first.ops
        ),
        values=(*first.values, *(value for value in again.values if value.tensor in added)),
        runs=first.runs + 1,
    )


def digest_of(array: Array) -> int:
    """A number that follows the content of a value, its dtype and its shape."""
    return zlib.crc32(repr((array.dtype, tuple(array.shape))).encode(), zlib.crc32(array.data))
