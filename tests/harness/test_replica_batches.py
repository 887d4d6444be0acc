"""Conditions of a proof, held against how many examples each replica of a run had."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from harness.evidence.step_graph import SAME_NUMBER
from harness.evidence.trace import RunTrace, Seen, merge
from harness.judging.replica_batches import with_data
from harness.relations import EVEN, NONEMPTY, Proof
from harness.relations.proof import Under
from tests.harness._traces import client, step


def _proof(*conditions: str) -> Proof:
    return Proof("conditional", "train", "multi_worker-2", tuple(Under(each, ()) for each in conditions))


def _run(*shares: tuple[int, int]) -> RunTrace:
    """Two workers with a replica each, which report examples; shares are those of the steps."""
    traces = [
        client(
            *(step(index, examples=(tuple(range(both[worker])),)) for index, both in enumerate(shares, 1)),
            task=f"worker:{worker}",
            clients=2,
            replicas=2,
        )
        for worker in range(2)
    ]
    return merge(traces)


@pytest.mark.parametrize(
    ("condition", "shares", "broken"),
    [
        (EVEN, [(4, 4), (3, 3)], None),
        (EVEN, [(4, 4), (4, 3)], 2),
        (EVEN, [(4, 4), (0, 0)], 2),
        (NONEMPTY, [(4, 4), (4, 3)], None),
        (NONEMPTY, [(4, 0), (4, 4)], 1),
        (SAME_NUMBER, [(4, 4), (4, 4)], None),
        (SAME_NUMBER, [(4, 4), (3, 3)], 2),
    ],
)
def test_a_condition_is_held_against_every_step(
    condition: str, shares: list[tuple[int, int]], broken: int | None
) -> None:
    """The first step that does not meet it is told, with what each replica had."""
    proof = with_data(_proof(condition), [_run(*shares)])
    met = proof.conditions[0].met
    assert met is not None
    assert met.steps == 2
    assert met.step == broken
    assert proof.is_met is (broken is None)
    if broken is None:
        assert "as in all 2 steps of this run" in proof.short
    else:
        assert met.shares == shares[broken - 1]
        assert "but proved only while" in proof.short
        assert f"first at step {broken} ({'+'.join(map(str, shares[broken - 1]))})" in proof.short


def test_what_is_seen_stands_in_for_what_is_not_reported() -> None:
    """A program that reports no examples has those that its replicas were called with."""
    seen = (Seen(1, 0.0, examples=((1, 2), (3, 4))), Seen(2, 0.0, examples=((1, 2), (3,))))
    run = merge([msgspec.structs.replace(client(step(1), step(2), replicas=2), seen=seen)])
    met = with_data(_proof(EVEN), [run]).conditions[0].met
    assert met is not None
    assert (met.steps, met.broken, met.step, met.shares) == (2, 1, 2, (2, 1))


@pytest.mark.parametrize(
    ("proof", "run"),
    [
        (_proof("what a program decides is as it was"), _run((4, 4))),
        (_proof(EVEN), merge([client(step(1), replicas=2)])),
        (replace(_proof(EVEN), sources=2), _run((4, 4))),
    ],
    ids=["nothing that examples show", "no examples", "two data sets"],
)
def test_what_is_not_known_is_not_met(proof: Proof, run: RunTrace) -> None:
    """The proof says then only what it is about."""
    found = with_data(proof, [run])
    assert found.conditions[0].met is None
    assert not found.is_met
    assert "this run" not in found.short
    assert found.to_json()["conditions"][0]["met"] is None


def test_one_condition_that_is_met_does_not_hide_another() -> None:
    """Neither one that is broken, nor one of which nothing is known."""
    broken = with_data(_proof(NONEMPTY, EVEN), [_run((4, 3))])
    assert "but proved only while all replicas have equally many examples" in broken.short
    unknown = with_data(_proof(EVEN, "what a program decides is as it was"), [_run((4, 4))])
    assert not unknown.is_met
    assert "this run" not in unknown.short


def test_a_part_of_a_run_that_was_started_again_counts_too() -> None:
    """What was consumed before the interruption has trained as well."""
    proof = with_data(_proof(EVEN), [_run((4, 3)), _run((4, 4))])
    assert not proof.is_met
