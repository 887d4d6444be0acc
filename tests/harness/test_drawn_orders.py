"""Orders of rows that replicas draw: of one replica they are one order of all rows, or ranks among these."""

from __future__ import annotations

import numpy as np
import pytest

from harness import verify
from harness.recording.steps.row_joins import joined_order
from tests.harness._drawn_orders import ORDERS, drawn_orders


def test_orders_count_on() -> None:
    """Each replica shuffles its own rows; one replica has them one after another."""
    found = joined_order([np.array([1, 0]), np.array([0, 2, 1])], np.arange(5), ranks=False)
    assert found.tolist() == [1, 0, 2, 4, 3]


def test_ranks_are_interleaved() -> None:
    """The first half of each replica's order is the first half of the order of all."""
    found = joined_order([np.array([1, 0, 2, 3]), np.array([3, 1, 0, 2])], np.arange(8), ranks=True)
    assert found.tolist() == [2, 0, 4, 6, 7, 3, 1, 5]
    uneven = joined_order([np.array([1, 0]), np.array([0, 2, 1, 3])], np.arange(6), ranks=True)
    assert [each < 3 for each in uneven] == [False, True, True, False, True, False]


def test_an_order_that_all_replicas_have_is_one_replica_s() -> None:
    """As of the columns of all rows."""
    same = np.array([2, 0, 1])
    for ranks in (False, True):
        assert joined_order([same, same], np.arange(3), ranks=ranks) is same


@pytest.mark.full
@pytest.mark.parametrize("kind", ["ranks", "mixed"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("graph", [True, False])
def test_what_is_trained_by_an_order_is_right(kind: str, order: str, graph: bool) -> None:
    """Whatever the order means."""
    verdict = verify(drawn_orders(kind, order, graph=graph), "mirrored-2", prove=False)
    assert verdict, str(verdict)
    assert any(note.endswith("gives each row a rank") for note in verdict.notes) == (kind == "ranks")


@pytest.mark.full
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["ranks", "mixed"])
def test_a_mistake_beside_an_order_is_found_at_its_line(kind: str, order: str) -> None:
    """The order itself is another one for all rows, and no other example."""
    verdict = verify(drawn_orders(kind, order, summed=True), "mirrored-2", prove=False, explain=True)
    assert verdict.explanation is not None, str(verdict)
    assert verdict.explanation.rule == "loss_times_replicas"
    assert verdict.culprit is not None, str(verdict)
    assert verdict.culprit.source.startswith("loss = ")
