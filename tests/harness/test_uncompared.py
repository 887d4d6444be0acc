"""A trained variable that nothing is held against is known."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from harness.evidence.trace import Array, RunTrace, Seen, SeenVariable, Value
from harness.judging.trained_variables import trained_uncompared
from tests.harness._traces import client

_Shapes = dict[str, tuple[int, ...]]


def _trace(variables: _Shapes, trained: _Shapes) -> RunTrace:
    """A step; a name may end with spaces, and then be another variable's of that name."""

    def zeros(shape: tuple[int, ...]) -> tuple[Array]:
        return (Array.of(np.zeros(shape, np.float32)),)

    left = tuple(SeenVariable(name.strip(), "mirrored", zeros(shape)) for name, shape in variables.items())
    gradients = tuple(Value(name, zeros(shape)) for name, shape in trained.items())
    seen = Seen(1, 0.0, variables=left, gradients=gradients)
    return RunTrace((msgspec.structs.replace(client(), seen=(seen,)),))


@pytest.mark.parametrize(
    ("variables", "trained", "reference", "name"),
    [
        ({"w": (3,)}, {"w": (3,)}, {"w": (3,)}, None),
        ({"w1": (3,), "b": ()}, {"w1": (3,)}, {"w2": (3,), "b": ()}, "w1"),
        ({"w1": (9,)}, {"w1": (5,)}, {"w2": (9,)}, "w1"),  # of whose gradient a part is kept
        ({"w": (3,), "mine": ()}, {"w": (3,)}, {"w": (3,)}, None),  # without a gradient
        ({"v": (3,), "v ": ()}, {"v": (3,)}, {"v": (3,)}, None),
        ({"v": (3,), "v ": (3,)}, {"v": (3,)}, {"v": (3,)}, "v"),  # nobody knows which of them it is
        ({"v": (3,)}, {"v": (3,)}, {"v": (3,), "v ": (3,)}, "v"),
        ({"v": (3,), "v ": (4,)}, {"v": (3,), "v#2": (4,)}, {"v": (3,)}, "v"),
    ],
)
def test_a_variable_with_gradients_has_one_that_it_is_compared_with(
    variables: _Shapes, trained: _Shapes, reference: _Shapes, name: str | None
) -> None:
    """By its name and form, and as many of these."""
    found = trained_uncompared(_trace(variables, trained), _trace(reference, {}))
    assert (found or "None").partition(" ")[0] == (f"{name!r}" if name else "None")


@pytest.mark.parametrize(("more", "found"), [({}, True), ({"own": ()}, False)])
def test_what_is_made_for_each_replica_is_not_renamed(more: _Shapes, found: bool) -> None:
    """Then the run has more variables than one device."""
    run, reference = _trace({"w1": (3,), **more}, {"w1": (3,)}), _trace({"w2": (3,)}, {})
    assert (trained_uncompared(run, reference, as_many=True) is not None) == found
