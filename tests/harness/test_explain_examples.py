"""The rules about examples consumed too often or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from harness.evidence.trace import RunTrace, Step
from harness.judging.explain import explain
from harness.judging.laws import Case
from harness.judging.tolerance import ExactTolerance
from tests.harness._explaining import explained
from tests.harness._traces import client, derived_case, edit, exact_case, step


def _case(run: list[tuple[tuple[int, ...], ...]], reference: list[tuple[int, ...]]) -> Case:
    """One step; `run` has the examples of each client, one tuple per replica."""
    replicas = sum(len(shards) for shards in run)
    clients = [
        client(step(1, examples=shards), task=f"worker:{k}", clients=len(run), replicas=replicas)
        for k, shards in enumerate(run)
    ]
    return Case(RunTrace(tuple(clients)), RunTrace((client(step(1, examples=tuple(reference))),)), ExactTolerance())


def test_a_dropped_example_is_missing() -> None:
    """One example of 256 that nobody consumed is named, in both tiers."""
    for make in (exact_case, derived_case):
        found = explained(make(dropped=(100,)))
        assert found.rule == "examples_missing"
        assert "From step 2 on" in found.text
        assert "1 example (id 100)" in found.text
        assert "drop_remainder" in found.text


def test_everything_read_by_every_replica_is_a_duplicate() -> None:
    """Reading the whole data set everywhere outranks the loss factor that it causes."""
    found = explained(exact_case(read_everything=True))
    assert found.rule == "examples_duplicated"
    assert "every example was consumed 4 times" in found.text
    assert "Every replica read the whole data set" in found.text


def test_everything_read_by_every_worker_says_worker() -> None:
    """With two workers of two replicas a factor of two is the workers'."""
    found = explained(_case([((0, 1), (2, 3)), ((0, 1), (2, 3))], [(0, 1, 2, 3)]))
    assert "Every worker read the whole data set" in found.text
    assert "num_input_pipelines" in found.text


def test_what_one_process_chooses_is_no_shard() -> None:
    """Its replicas are given what it has chosen, as by priorities: there is nothing that could overlap."""
    found = explained(_case([((0, 1), (1, 2))], [(0, 1, 2, 3)]))
    assert found.rule == "examples_duplicated"
    assert "shard" not in found.text
    assert "let it have what all replicas have computed" in found.text


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_what_a_wrong_step_chooses_is_no_mistake_of_the_data(wrong: float) -> None:
    """Such as how often a loop goes over the same examples: what a step before has computed decides."""
    truth = [((0, 1), (2, 3)), ((4, 5), (6, 7))]
    again = [truth[0], tuple(2 * rows for rows in truth[1])]

    def steps(batches: list[tuple[tuple[int, ...], ...]], more: float) -> list[Step]:
        values = [np.full(2, number + more) for number, _ in enumerate(batches)]
        return [
            step(number, examples=rows, variables={"w": [value] * len(rows)})
            for number, (rows, value) in enumerate(zip(batches, values, strict=True), start=1)
        ]

    run, reference = steps(again, wrong), steps([(sum(rows, ()),) for rows in truth], 0.0)
    case = Case(RunTrace((client(*run, replicas=2),)), RunTrace((client(*reference),)), ExactTolerance())
    found = explain(case)
    assert (None if found is None else found.rule) == (None if wrong else "examples_duplicated")


def test_overlapping_shards_are_named() -> None:
    """Some ids twice and others never: the shards overlap."""
    found = explained(_case([((0, 1),), ((1, 2),)], [(0, 1, 2, 3)]))
    assert found.rule == "examples_duplicated"
    assert "1 example (id 1) more often" in found.text
    assert "1 example (id 3) less often: the shards overlap" in found.text


def test_one_duplicate_is_no_common_factor() -> None:
    """A single repeated example is listed by id."""
    found = explained(_case([((0, 1),), ((1, 2, 3),)], [(0, 1, 2, 3)]))
    assert "1 example (id 1) more often than the reference." in found.evidence
    assert found.cure.startswith("Give each")


def test_what_the_ids_do_not_show_is_not_claimed() -> None:
    """Right ids, a mere change of order, foreign ids, and a silent client leave both rules without a claim."""
    assert explain(_case([((0, 1),), ((2, 3),)], [(0, 1, 2, 3)])) is None
    assert explain(_case([((0, 1),), ((2, 9),)], [(0, 1, 2, 3)])) is None
    case = exact_case()
    swapped = case.run
    for number in (0, 1):
        one, two = (case.run.clients[number].steps[k].examples for k in (0, 1))
        swapped = edit(edit(swapped, number, 1, examples=two), number, 2, examples=one)
    assert explain(Case(swapped, case.reference, case.tolerance)) is None
    silent = case.run
    for index in range(1, 5):
        silent = edit(silent, 1, index, examples=None)
    assert explain(Case(silent, case.reference, case.tolerance)) is None
