"""What is known of a value in the replicas' function: how it stands to a term of the one-device step.

Every fact is a statement about numbers, for every batch:

| kind | the values p_r of the replicas, the term's value v |
|---|---|
| SPLIT | joined along `axis` they are scale * v |
| REPLICATED | every p_r is scale * v |
| PARTIAL | they add up to scale * v |
| ROWS | p_r = scale * v * (replica r's share of the examples): counts of rows. They add up, so it is PARTIAL as well |
| SHAPE | a vector of numbers, each with a fact of its own, of which some count rows |
| STACKED | one value for each replica, put together in their order; `inner` is what each of them is |
| EXTREME | the largest or the smallest of such values, each of which is `inner`: a number |
| HANDLE | a resource |
| OPTIONAL | what an iterator may give, of which the `parts` are known |
| PRESENT | whether an iterator has given something to a replica, or to how many: the machinery of distributed input |
| UNKNOWN | nothing is known, and `why` says since when |

Facts hold under conditions: EVEN, all replicas have equally many examples, at least one; NONEMPTY, none is without;
WITHIN, no sum of whole numbers is too large for its dtype, on one device or in a replica; COARSE, no number of 16 bits
is, and no count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any

from harness.evidence.step_graph import GraphNode
from harness.relations.terms import ONE, Scaled

Shape = tuple[int | None, ...] | None


class FactKind(Enum):
    """See the module."""

    SPLIT = "split"
    REPLICATED = "replicated"
    PARTIAL = "partial"
    ROWS = "rows"
    SHAPE = "shape"
    STACKED = "stacked"
    EXTREME = "extreme"
    HANDLE = "handle"
    OPTIONAL = "optional"
    PRESENT = "present"
    UNKNOWN = "unknown"


EVEN, NONEMPTY = "even shards", "no empty shard"
WITHIN = "whole numbers stay within their dtype"
COARSE = (
    "numbers of 16 bits stay within their dtype: float16 goes to 65504, and counts to 2048, in bfloat16 counts to 256"
)


@dataclass(frozen=True)
class ProofCondition:
    """What has to be so, and the operation that needs it, by the number of the program's own frame.

    `length` says that otherwise a value has another number of rows, so that it is needed of whatever is made of it.
    `everywhere` says that values of replicas have come together since: it is needed of all replicas for each of them.
    """

    what: str
    caller: int | None = None
    op: str = ""
    length: bool = False
    everywhere: bool = False


@dataclass(frozen=True, eq=False)
class Made:
    """By which operation, of what."""

    node: GraphNode
    operands: tuple[Fact, ...]


@dataclass(frozen=True)
class Unknown:
    """Where nothing was known any more: the operation, and why.

    `ruleless` says that there is no rule for the operation, so that the value may be right.
    """

    node: GraphNode
    why: str
    operands: tuple[Fact, ...] = field(default=(), compare=False)
    ruleless: bool = False


@dataclass(frozen=True, eq=False)
class Fact:
    """One fact; see the module.

    Attributes:
        kind: which.
        term: the value of the one-device step.
        scale: by which that is multiplied.
        axis: of SPLIT, from 0.
        rows: of SPLIT how long the axis is in the one-device step, if that is known.
        shape: of the value in this replica, as far as it is known.
        conditions: under which this holds.
        local: a number that is the same in two replicas if they do the same with what they have.
        replicas: whose value it is; empty for one that does not depend on a replica.
        shared: whether it was just made of the values of all replicas.
        value: of a small constant, as an array.
        parts: of SHAPE its numbers.
        inner: of STACKED and EXTREME what each one is.
        handle: of HANDLE its name and its replica.
        unknown: of UNKNOWN since when.
        made: how.
    """

    kind: FactKind
    term: int = ONE
    scale: Fraction = Fraction(1)
    axis: int = 0
    rows: Scaled | None = None
    shape: Shape = None
    conditions: frozenset[ProofCondition] = frozenset()
    local: int = -1
    replicas: frozenset[int] = frozenset()
    shared: bool = False
    value: Any = None
    parts: tuple[Fact, ...] = ()
    inner: Fact | None = None
    handle: tuple[str, int | None] | None = None
    unknown: Unknown | None = None
    made: Made | None = None

    @property
    def scaled(self) -> Scaled:
        """The multiple of the term."""
        return self.scale, self.term

    @property
    def rank(self) -> int | None:
        """Of the value, if it is known."""
        return None if self.shape is None else len(self.shape)


def made_by(given: Fact, made: Made, local: int, replicas: frozenset[int]) -> Fact:
    """A fact with where it comes from; as `dataclasses.replace`, which takes most of the time of a walk."""
    found = object.__new__(Fact)
    found.__dict__.update(given.__dict__, made=given.made or made, local=local, replicas=replicas)
    return found
