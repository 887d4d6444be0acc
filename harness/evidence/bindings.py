"""What the program's own Python has bound, given back and laid out, line by line, outside of graphs.

One file per client process. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import msgspec

from harness.evidence.arrays import Array
from harness.evidence.message_file import MessageFile
from harness.evidence.watched_step import Frame

NAME, ARGUMENT, RETURN, ENTRY, CONSTANT = "name", "argument", "return", "entry", "constant"
"""Bound by a statement, by a call, given back by a function, laid out over a mesh, or built into a graph."""


GRAPH = "graph"
"""The name of an entry that a call of a graph gives."""


class Bound(msgspec.Struct, frozen=True, array_like=True):
    """One value.

    Attributes:
        kind: NAME, ARGUMENT, RETURN, ENTRY or CONSTANT.
        name: of what is bound, with the place in a container where that is noted by itself; of an entry, what makes it.
        lines: indices into `Bindings.frames`, outermost first, the last one where it is made.
        step: in which it was, from 1.
        call: the number of the call of the function that it belongs to.
        within: the number of the call of the program's own that this one was made in, 0 for none.
        parts: the arrays of a container, or those that the local devices have of a tensor on a mesh, or the only one.
        shards: of a tensor on a mesh, which shard each part is.
        hidden: it could not be read.
    """

    kind: str
    name: str
    lines: tuple[int, ...]
    step: int
    call: int
    within: int
    parts: tuple[Array, ...]
    shards: tuple[tuple[int, ...], ...] = ()
    hidden: bool = False


class Bindings(msgspec.Struct, frozen=True):
    """Those of one client, in the order in which they were made; `whole` says that there was room for all of them."""

    task: str
    frames: tuple[Frame, ...]
    bound: tuple[Bound, ...]
    whole: bool = True


_FILED = MessageFile(Bindings)
write_bindings, read_bindings = _FILED.write, _FILED.read
