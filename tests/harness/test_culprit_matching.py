"""Which operation of a run, or of a rerun with noise, is which of the reference's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.evidence.trace import Array
from harness.evidence.watched_step import REPLICA, Frame, Op, TensorValue, WatchedStep, digest_of
from harness.judging.culprit.client_step import ClientStep, matched

_FORWARD = (("Mul", "mul"), ("RealDiv", "truediv"), ("RealDiv", "truediv_1"))
_BACK = (("RealDiv", "gradient_tape/truediv_1/RealDiv"), ("Mul", "gradient_tape/truediv_1/mul"))
_BACK_2 = (("RealDiv", "gradient_tape/truediv/RealDiv"), ("Neg", "gradient_tape/truediv/Neg"))


def _side(made: Sequence[tuple[str, str]]) -> ClientStep:
    """A step whose operations, by type and name, are made at one line; those that a tape makes at the next one."""
    frames = tuple(Frame("train.py", line, "step", own=True) for line in (1, 2))
    ops = []
    for number, (kind, name) in enumerate(made, start=1):
        backward = name.startswith("gradient_tape/")
        ops.append(Op(number, kind, name, REPLICA, 0, (backward,), backward, (), (number,), differentiates=backward))
    value = Array.of(0.0)
    values = tuple(TensorValue(op.number, value, digest_of(value)) for op in ops)  # each was carried out
    step = WatchedStep("local:0", 1, 1, frames=frames, ops=tuple(ops), values=values, variables=(), targets=())
    return ClientStep(step)


def _pairs(theirs: Sequence[tuple[str, str]], ours: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The names of those that are taken for the same."""
    found = matched(_side(theirs), _side(ours), REPLICA, 0)
    return sorted((theirs[one - 1][1], ours[other - 1][1]) for one, other in found.items())


def test_gradients_are_matched_by_what_they_are_of() -> None:
    """A tape makes them in an order that follows from all that was made; names have other numbers then."""
    theirs = [*_FORWARD, *_BACK, *_BACK_2]
    ours = [*_FORWARD[:1], ("RealDiv", "truediv_5"), *_FORWARD[2:], *_BACK_2, *_BACK]
    ours = [(kind, name.replace("truediv/", "truediv_5/")) for kind, name in ours]
    renamed = {name: name.replace("truediv/", "truediv_5/") for _, name in theirs} | {"truediv": "truediv_5"}
    assert _pairs(theirs, ours) == sorted(renamed.items())


def test_a_gradient_of_what_the_other_has_not_is_none_of_its() -> None:
    """Each has such an operation, of the same number, and its gradient is of the same type."""
    theirs = [("Sqrt", "sqrt"), *_FORWARD[1:], ("RealDiv", "gradient_tape/sqrt/RealDiv"), *_BACK, *_BACK_2]
    ours = [("Mul", "mul"), *_FORWARD[1:], ("RealDiv", "gradient_tape/mul/RealDiv"), *_BACK_2, *_BACK]
    assert _pairs(theirs, ours) == sorted((name, name) for _, name in (*_FORWARD[1:], *_BACK, *_BACK_2))


def test_what_arrives_from_noise_makes_no_difference() -> None:
    """It adds one before the second operation, and what follows looks like the beginning."""
    products = [("Mul", "mul"), ("Mul", "mul_1"), ("Mul", "mul_2")]
    theirs = [("Input", "a"), *products]
    ours = [("Input", "a"), products[0], ("Input", "noise"), *products[1:]]
    assert _pairs(theirs, ours) == sorted((name, name) for _, name in theirs)


def test_a_gradient_that_opens_no_scope_is_of_no_operation_that_is_known() -> None:
    """Nor of one without a name."""
    side = _side([("PyFunc", ""), ("Sum", "Sum"), ("Mul", "mul"), ("Tile", "gradient_tape/Tile"), *_BACK[1:]])
    tile, product = side.watched.ops[-2:]
    assert side.forward_of(tile) is None
    assert side.forward_of(product) is None  # of `truediv_1`, which is not there
    side = _side([*_FORWARD, *_BACK])
    assert [side.forward_of(op) for op in side.watched.ops[-2:]] == [side.watched.ops[2]] * 2


@pytest.mark.parametrize(
    ("between", "kind", "line", "differentiates", "found"),
    [
        ("SplitV", "RealDiv", 1, False, (True, False)),
        ("SplitV", "RealDiv", 2, False, (False, False)),  # at another line somebody else divides
        ("Mul", "RealDiv", 1, False, (False, False)),  # as of an update by it, which a variable averages
        ("SplitV", "Mul", 1, False, (False, False)),
        ("SplitV", "Mul", 1, True, (False, True)),
    ],
)
def test_what_becomes_of_a_sum_at_its_line_is_seen(
    between: str, kind: str, line: int, differentiates: bool, found: tuple[bool, bool]
) -> None:
    """`ReduceOp.MEAN` divides it by the number of replicas, and a tape goes on with one that it differentiates."""
    frames = tuple(Frame("train.py", number, "step", own=True) for number in (1, 2))
    ops = (
        Op(1, "CollectiveReduceV2", "sum", "outer", 0, (), 0, (), (1,)),
        Op(2, between, "between", "outer", 0, (), 0, (1,), (2,)),
        Op(3, kind, "after", "outer", 0, (), line - 1, (2, 9), (3,), differentiates=differentiates),
    )
    two = Array.of(2.0)
    side = ClientStep(WatchedStep("local:0", 1, 2, frames, ops, (TensorValue(9, two, digest_of(two)),)))
    assert (side.averages(ops[0]), side.is_within_gradient(ops[0])) == found
