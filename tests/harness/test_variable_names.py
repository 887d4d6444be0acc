"""Variables of a watched run that share a name, under the names that the reference has for them."""

from __future__ import annotations

import pytest

from harness.evidence.watched_step import OUTER, Frame, Op, WatchedStep, WatchedVariable
from harness.judging.culprit.alignment import alike_named


def _watched(*made: tuple[str, int]) -> WatchedStep:
    """Variables, each with its name and the line that makes it, and an assignment to each."""
    frames = tuple(Frame("train.py", line, "<module>", own=True) for _, line in made)
    ops = tuple(
        Op(number, "AssignVariableOp", "a", OUTER, 0, (), None, (), (), name)
        for number, (name, _) in enumerate(made, 1)
    )
    seen = tuple(WatchedVariable(name, made=at) for at, (name, _) in enumerate(made))
    return WatchedStep("local:0", 1, 2, frames, ops, (), seen)


@pytest.mark.parametrize(
    ("run", "reference", "names"),
    [
        # One for each device at line 3 moves the numbers of those of line 5.
        (
            (("v", 3), ("v#2", 3), ("v#3", 5), ("v#4", 5)),
            (("v", 3), ("v#2", 5), ("v#3", 5)),
            ("v of local:0", "v#2 of local:0", "v#2", "v#3"),
        ),
        # The reference makes them in another order.
        ((("v", 3), ("v#2", 5)), (("v", 5), ("v#2", 3)), ("v#2", "v")),
        # What has a name of its own keeps it, wherever it is made.
        ((("w", 3), ("v", 4), ("v#2", 4)), (("w", 9), ("v", 4), ("v#2", 4)), ("w", "v", "v#2")),
    ],
)
def test_variables_that_share_a_name_are_paired_by_their_lines(
    run: tuple[tuple[str, int], ...], reference: tuple[tuple[str, int], ...], names: tuple[str, ...]
) -> None:
    """And by their order there, in what is known of them and in each operation."""
    found = alike_named(_watched(*run), _watched(*reference))
    assert tuple(seen.name for seen in found.variables) == names
    assert tuple(op.variable for op in found.ops) == names
    assert [seen.made for seen in found.variables] == list(range(len(run)))
