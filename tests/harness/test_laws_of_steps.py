"""The laws about what a step had, and the conditions that are no findings; from records of a process that followed."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.counters import Counters, GivenSeen, PartMix
from harness.evidence.stand_ins import StandIn
from harness.evidence.trace import Array, DrawSeen, RunTrace, Seen, SeenVariable, Start, merge
from harness.judging.conditions import conditions_of
from harness.judging.drawn_data import not_drawn
from harness.judging.interruption import Interruption
from harness.judging.laws import Case, Judgement, all_laws, judge_all
from harness.judging.per_replica import settled
from harness.judging.tolerance import DerivedTolerance, ExactTolerance
from harness.judging.verdict import Verdict
from harness.relations import COARSE, EVEN, Met, Proof
from harness.relations.proof import Under
from tests.harness._traces import client, step

_LAWS = {law.id: law for law in all_laws()}


def _trace(*, start: dict[str, Any] | None = None, counters: Counters | None = None, **seen: Any) -> RunTrace:
    made = client(step(1, loss=1.0))
    steps = tuple(msgspec.structs.replace(each, seen=Seen(index=1, at=0.0, **seen)) for each in made.steps)
    begun = None
    if start is not None:
        variables = [SeenVariable(name, "copies", (Array.of(np.asarray(value)),)) for name, value in start.items()]
        begun = Start(0.0, tuple(variables))
    return RunTrace((msgspec.structs.replace(made, steps=steps, start=begun, counters=counters or Counters()),))


def _judged(law: str, case: Case) -> Judgement:
    assert _LAWS[law].concerns(case)
    return _LAWS[law].judge(case)


def test_a_first_state_that_grows_with_the_replicas_is_found() -> None:
    """By name; what has no partner, or another shape, is not compared."""
    run = _trace(
        start={"w": np.array([2, 4], np.float32), "rate": np.float32(0.2), "table": np.zeros((2, 2)), "own": 1.0}
    )
    truth = _trace(start={"w": np.array([1, 2], np.float32), "rate": np.float32(0.2), "table": np.zeros((3, 2))})
    for tolerance in (ExactTolerance(), DerivedTolerance(truth, [])):
        found = _judged("begins_alike", Case(run, truth, tolerance))
        assert (found.status, found.compared) == ("broken", 2)
        assert found.findings[0].text.startswith("before step 1, variable 'w'")
    assert _judged("begins_alike", Case(truth, truth, DerivedTolerance(truth, []))).status == "held"


def test_a_step_that_is_taken_out_of_a_training_is_not_held_against_the_begin_of_a_program() -> None:
    """It begins with what the training has made."""
    (made,) = _trace(start={"w": np.float32(2)}).clients
    single = msgspec.structs.replace(made, header=msgspec.structs.replace(made.header, are_single=True))
    for client_, asked in ((made, True), (single, False)):
        case = Case(RunTrace((client_,)), _trace(start={"w": np.float32(1)}), ExactTolerance())
        assert _LAWS["begins_alike"].concerns(case) == asked


@pytest.mark.parametrize(("start", "suffices"), [(None, True), ({"w": np.float32(1)}, False)])
def test_right_examples_suffice_where_nothing_is_trained(start: dict[str, Any] | None, suffices: bool) -> None:
    """A step that has variables makes something of its examples, of which these say nothing."""
    steps = [step(k, examples=[[2 * k, 2 * k + 1]]) for k in (1, 2)]
    run = _trace(start=start)
    run = RunTrace((msgspec.structs.replace(run.clients[0], steps=tuple(steps)),))
    found = {law.law: law for law in judge_all(Case(run, run, ExactTolerance()))}
    assert (found["examples_match_reference"].status, found["examples_match_reference"].suffices) == ("held", suffices)
    held = Verdict("p", "s", tuple(found.values()), tolerance="exact")
    assert held.outcome == ("consistent" if suffices else "abstained")


@pytest.mark.parametrize(("rates", "status"), [((0.1, 0.1, 0.05), "broken"), ((0.1, 0.05, 0.05), "held")])
def test_what_happens_between_steps_is_compared_where_each_is_looked_at_as_it_ends(
    rates: tuple[float, ...], status: str
) -> None:
    """Only what has changed since: a weight is judged by what the step has left."""
    held = [dict(zip(("rate", "w"), each, strict=True)) for each in zip(rates, (1.0, 2.0, 4.0), strict=True)]

    def begun(held: list[dict[str, float]]) -> RunTrace:
        starts = [
            Start(0.0, tuple(SeenVariable(n, "copies", (Array.of(np.float32(v)),)) for n, v in each.items()), index=k)
            for k, each in enumerate(held, start=1)
        ]
        made = client(*(step(k, variables={n: [np.float32(v)] for n, v in held[0].items()}) for k in (1, 2)))
        return RunTrace((msgspec.structs.replace(made, start=starts[0], starts=tuple(starts[1:])),))

    truth = begun([{"rate": rate, "w": 1.0} for rate in (0.1, 0.05, 0.05)])
    found = _judged("begins_alike", Case(begun([{**each, "w": 1.0} for each in held]), truth, ExactTolerance()))
    assert (found.status, found.compared) == (status, 4)
    assert [each.step for each in found.findings] == ([2] if status == "broken" else [])


def test_variables_that_share_a_name_are_paired_where_they_are_as_many() -> None:
    """One more on one side, such as one for each device, leaves nobody to tell which is which."""

    def begun(*values: Any) -> RunTrace:
        seen = [SeenVariable("Variable", "copies", (Array.of(np.asarray(each)),)) for each in values]
        seen.append(SeenVariable("rate", "copies", (Array.of(np.float32(0.5)),)))
        (made,) = _trace().clients
        return RunTrace((msgspec.structs.replace(made, start=Start(0.0, tuple(seen))),))

    zero, five, row = np.float32(0), np.float32(5), np.zeros(3, np.float32)
    for ours, theirs, status, compared in (
        ((zero, zero, five), (zero, five), "held", 1),
        ((zero, row, five), (row, zero, five), "held", 4),
        ((zero, five), (zero, five), "held", 3),
        ((zero, five), (zero, zero), "broken", 3),
    ):
        found = _judged("begins_alike", Case(begun(*ours), begun(*theirs), ExactTolerance()))
        assert (found.status, found.compared) == (status, compared)


def test_nothing_is_asked_of_a_twin() -> None:
    """It has no first state to speak of, and knows nothing of draws or rows."""
    plain = RunTrace((client(step(1, loss=1.0)),))
    case = Case(plain, plain, ExactTolerance())
    asked = [law.id for law in all_laws() if law.concerns(case)]
    assert not {"begins_alike", "draws", "rows_whole", "data_intact"} & {*asked}


@pytest.mark.parametrize(
    ("kind", "by_keras", "broken"),
    [("equal", False, True), ("equal", True, False), ("again", False, True), ("unlike", True, True)],
)
def test_draws_are_findings_but_for_equal_ones_of_keras(kind: str, by_keras: bool, broken: bool) -> None:
    """Those are a condition, which cites the line."""
    truth = _trace(draws=(DrawSeen(kind, "said", "train.py:7", by_keras),))
    case = Case(truth, truth, ExactTolerance())
    found = _judged("draws", case)
    assert (found.status == "broken") == broken
    _, conditions = conditions_of(case, [])
    assert [each.code for each in conditions] == ([] if broken else ["equal_draws"])


def test_what_replicas_draw_for_themselves_is_no_finding() -> None:
    """By itself it makes no law be asked."""
    truth = _trace(draws=(DrawSeen("own", "said", "train.py:7"),))
    assert not _LAWS["draws"].concerns(Case(truth, truth, ExactTolerance()))


@pytest.mark.parametrize(
    ("given", "broken"),
    [
        (GivenSeen(8, 8, 0), False),
        (GivenSeen(8, 8, 8), False),
        (GivenSeen(16, 8, 8), True),
    ],
)
def test_too_many_rows_are_found(given: GivenSeen, broken: bool) -> None:
    """Other rows are not: they may be drawn."""
    truth = _trace(given=given)
    assert (_judged("rows_whole", Case(truth, truth, ExactTolerance())).status == "broken") == broken


def test_parts_that_are_mixed_are_found_at_their_steps() -> None:
    """Also where of no step is known how many examples it was given; of several pairs of parts the worst is told."""
    mixes = (PartMix((3, 0, 2), 1, ((2, 1),)), PartMix((3, 0, 1), 5, ((1, 2), (4, 3))))
    truth = _trace(counters=Counters(all_examples=GivenSeen(7, 8, 5, mixes)))
    findings = _judged("rows_whole", Case(truth, truth, ExactTolerance())).findings
    assert [(each.step, each.text.partition(" have")[0]) for each in findings] == [
        (1, "step 1: 2 examples"),
        (4, "step 4: 3 examples"),
    ]
    other = _trace(counters=Counters(all_examples=GivenSeen(7, 8, 3)))
    assert not _LAWS["rows_whole"].concerns(Case(other, other, ExactTolerance()))


@pytest.mark.parametrize(
    ("drawn", "status"),
    [
        (Counters(), "broken"),
        (Counters(unseeded=1), "held"),
        (Counters(dataset_draws=1), "held"),
        (Counters(drawn_apart=1), "held"),
        (Counters(dataset_orders=1), "broken"),  # an order changes no part of an example
    ],
)
def test_a_part_that_a_worker_draws_once_is_no_other_example(drawn: Counters, status: str) -> None:
    """It is the same each time that it comes, and one device draws another; so it may be in any epoch by one seed."""
    total = GivenSeen(16, 16, 6, changed=3)
    truth = _trace(given=GivenSeen(8, 8, 3), counters=Counters(all_examples=total))
    case = Case(_trace(counters=drawn), truth, ExactTolerance())
    assert _judged("rows_whole", case).status == status


@pytest.mark.parametrize(("again", "status"), [((0, 0, 0), "held"), ((128, 30, 0), "broken")])
def test_examples_that_come_again_too_early_are_found(again: tuple[int, int, int], status: str) -> None:
    """It is known over all steps only."""
    truth = _trace(counters=Counters(all_examples=GivenSeen(128, 128, 30, again=again)))
    found = _judged("examples_in_turn", Case(truth, truth, ExactTolerance()))
    assert found.status == status
    assert all("first 128 examples" in each.text and "30 had come" in each.text for each in found.findings)


def test_data_that_was_written_over_harms_where_it_is_read_again() -> None:
    """The reference has been given other examples."""
    run = _trace(counters=Counters(overwritten=("1 of 2 arrays were written over",)))
    for others, status in ((0, "not_judged"), (3, "broken")):
        truth = _trace(counters=Counters(others=others))
        assert _judged("data_intact", Case(run, truth, ExactTolerance())).status == status


def test_an_order_of_examples_is_a_condition_and_other_examples_are_not() -> None:
    """If each comes as often, over all steps, and nobody has reported which they are."""
    run, same, other = (_trace(examples=(rows,)) for rows in ((1, 2), (2, 1), (2, 3)))
    broken = Judgement("examples_match_reference", "broken", compared=1)
    (held,), conditions = conditions_of(Case(run, same, ExactTolerance()), [broken])
    assert (held.status, [each.code for each in conditions]) == ("held", ["order_of_examples"])
    (still,), nothing = conditions_of(Case(run, other, ExactTolerance()), [broken])
    assert (still.status, nothing) == ("broken", ())


@pytest.mark.parametrize(("sizes", "told"), [((4, 3), "such as 4 examples where that has 3"), ((0, 0), "")])
def test_batches_of_other_sizes_are_told(sizes: tuple[int, int], told: str) -> None:
    """With the order, which they are one with: each example comes as often as on one device."""
    truth = _trace(counters=Counters(others=1, all_examples=GivenSeen(9, 9, 0, sizes=sizes)))
    held = Judgement("examples_match_reference", "not_judged")
    _, (order,) = conditions_of(Case(truth, truth, ExactTolerance()), [held])
    assert order.code == "order_of_examples"
    assert order.text.endswith(told or "one device")


def test_examples_that_one_device_draws_otherwise_are_a_condition() -> None:
    """Where they could not be compared."""
    truth = _trace(counters=Counters(others=2))
    _, conditions = conditions_of(
        Case(truth, truth, ExactTolerance()), [Judgement("examples_match_reference", "not_judged")]
    )
    assert [each.code for each in conditions] == ["drawn_examples"]


@pytest.mark.parametrize(
    ("number", "others", "codes"), [(7, 2, ["drawn_examples"]), (7, 0, ["order_of_examples"]), (0, 2, [])]
)
def test_examples_that_are_known_by_a_part_may_be_others(number: int, others: int, codes: list[str]) -> None:
    """Ids that agree say nothing of what comes with them; rows of other shapes may be padded."""
    given = GivenSeen(8, 8, others, number=number)
    truth = _trace(counters=Counters(others=2, all_examples=given))
    held = Judgement("examples_match_reference", "held", compared=1)
    _, conditions = conditions_of(Case(truth, truth, ExactTolerance()), [held])
    assert [each.code for each in conditions] == codes


@pytest.mark.parametrize(
    ("numbers", "lines", "said"),
    [
        ((7, 7), {}, "something that one device has not"),
        ((7, 8), {}, None),
        ((0, 0), {}, None),
        ((7, 8), {"tables": ("train.py:9",)}, "a table, which the training writes (train.py:9)"),
        ((7, 7), {"by_replica": ("train.py:9",)}, "for each replica by its number (train.py:9)"),
        ((7, 8), {"by_replica": ("train.py:9",)}, None),
    ],
)
def test_what_is_the_same_by_other_seeds_is_not_drawn(
    numbers: tuple[int, int], lines: dict[str, Any], said: str | None
) -> None:
    """Nor does anybody know what is, where a table is written that the examples may come from."""
    first, again = (
        _trace(counters=Counters(all_examples=GivenSeen(8, 8, 2, number=number), **lines)) for number in numbers
    )
    found = not_drawn(first, again)
    assert found is None if said is None else said in str(found)


def _verdict(*judgements: Judgement, abstained: str | None = None) -> Verdict:
    return Verdict("train", "mirrored-2", judgements, abstained=abstained)


def test_replicas_that_stand_for_a_whole_settle_what_one_cannot_compute() -> None:
    """If they compute what the run did; what else is broken stays so."""
    variables = Judgement("variables_match_reference", "held", compared=4, suffices=True)
    open_one = _verdict(
        Judgement("variables_match_reference", "broken"),
        Judgement("loss_matches_reference", "broken"),
        abstained="apart",
    )
    found = settled(open_one, _verdict(variables), ["draws at train.py:3"], _trace())
    assert found.outcome == "consistent"
    assert [each.code for each in found.conditions] == ["own"]
    examples = Judgement("examples_match_reference", "broken")
    assert (
        settled(_verdict(*open_one.judgements, examples), _verdict(variables), ["draws"], _trace()).outcome
        == "inconsistent"
    )


def test_replicas_that_stand_for_a_whole_acquit_nobody_who_differs_from_them_too() -> None:
    """What was not judged is found, and what was found stays."""
    broken = Judgement("variables_match_reference", "broken", compared=4, suffices=True)
    unjudged = _verdict(Judgement("variables_match_reference", "not_judged"), abstained="apart")
    assert settled(unjudged, _verdict(broken), ["draws"], _trace()).outcome == "inconsistent"
    wrong = _verdict(Judgement("variables_match_reference", "broken"))
    assert settled(wrong, _verdict(broken), ["draws"], _trace()) is wrong
    nothing = Judgement("variables_match_reference", "not_judged")
    assert settled(unjudged, _verdict(nothing), ["draws"], _trace()) is unjudged


@pytest.mark.parametrize(
    ("ours", "others", "cut", "code"),
    [
        (((1, 2), (3, 4)), 2, True, "own_shares"),
        (((1, 2), (1, 2)), 2, True, None),  # each worker reads everything
        (((1, 2), (2, 3)), 2, True, None),  # shares that overlap
        (((1, 2), (3, 4)), 4, True, None),  # one device reads nothing of the run's
        (((1, 2), (3, 4)), 2, False, None),  # nothing in the script depends on the worker
    ],
)
def test_shares_that_a_script_cuts_by_its_worker_are_given(
    ours: tuple[tuple[int, ...], ...], others: int, cut: bool, code: str | None
) -> None:
    """One device reads the first worker's, so that it has fewer: that is no finding where the others have their own."""
    run = merge(
        [
            msgspec.structs.replace(
                client(task=f"worker:{k}", clients=2, replicas=2),
                steps=(step(1, loss=1.0, seen=Seen(index=1, at=0.0, examples=(rows,))),),
            )
            for k, rows in enumerate(ours)
        ]
    )
    told = (StandIn("TF_CONFIG", "train.py:18", "2 workers, of which this is the first"),) if cut else ()
    truth = _trace(given=GivenSeen(4, 2, others), counters=Counters(others=1, stand_ins=told))
    case = Case(run, truth, ExactTolerance())
    broken = _judged("rows_whole", case)
    assert broken.status == "broken"
    (found,), conditions = conditions_of(case, [broken])
    assert found.status == ("broken" if code is None else "not_judged")
    assert (code in [each.code for each in conditions]) is (code is not None)
    if code is not None:
        assert "train.py:18" in conditions[0].text
        assert len(conditions) == 1  # nothing is said to be drawn


@pytest.mark.parametrize(
    ("status", "conditions", "drawn", "outcome"),
    [
        ("proved", (), (), "consistent"),
        ("conditional", (Under(COARSE, ()),), (), "consistent"),
        ("conditional", (Under(EVEN, (), Met(4, 0)),), (), "consistent"),
        ("conditional", (Under(EVEN, ()),), (), "abstained"),
        ("conditional", (Under(EVEN, (), Met(4, 1)),), (), "abstained"),
        ("open", (), (), "abstained"),
        ("proved", (), ("w",), "abstained"),
    ],
)
def test_a_proof_speaks_where_rounding_hides_what_a_step_adds(
    status: Any, conditions: tuple[Under, ...], drawn: tuple[str, ...], outcome: str
) -> None:
    """As a condition; not of what is drawn where nobody sees it, nor under a condition that may not be met."""
    hidden = Judgement("variables_match_reference", "not_judged", "too wide", unseen=("w",), drawn=drawn)
    verdict = _verdict(hidden, Judgement("loss_matches_reference", "held", compared=4, suffices=True))
    assert verdict.outcome == "abstained"
    settled = verdict.with_proof(Proof(status, "train", "mirrored-2", conditions=conditions))
    assert settled.outcome == outcome
    assert [each.code for each in settled.conditions] == ["by_proof"] * (outcome == "consistent")


@pytest.mark.parametrize(("moved", "outcome"), [(1, "abstained"), (2, "consistent")])
def test_a_proof_alone_is_no_verdict(moved: int, outcome: str) -> None:
    """Something that a step computes has to be judged by its numbers, such as another variable."""
    hidden = Judgement(
        "variables_match_reference", "not_judged", "too wide", compared=4, suffices=True, unseen=("w",), moved=moved
    )
    assert _verdict(hidden).with_proof(Proof("proved", "train", "mirrored-2")).outcome == outcome


@pytest.mark.parametrize(
    ("orders", "again", "ids", "held"),
    [(1, True, (2, 1), True), (1, True, (2, 3), False), (0, True, (2, 1), False), (1, False, (2, 1), False)],
)
def test_an_order_that_is_drawn_again_after_a_restart_is_a_condition(
    orders: int, again: bool, ids: tuple[int, ...], held: bool
) -> None:
    """Of reported examples: if the data has no seed, and each comes as often as on one device."""
    run = RunTrace((client(step(1, examples=(ids,)), dataset_orders=orders, drawn_apart=1),))
    truth = RunTrace((client(step(1, examples=((1, 2),))),))
    before = Interruption(1, run, 1, False, truth, "mirrored-2") if again else None
    case = Case(run, truth, ExactTolerance(), interruption=before)
    (law,), found = conditions_of(case, [Judgement("examples_match_reference", "broken", compared=1)])
    assert (law.status == "held") == held
    assert [each.code for each in found] == (["order_of_examples"] if held else [])


@pytest.mark.parametrize(
    ("orders", "turns", "held"),
    [
        ([[(1, 2), (3, 4)], [(1, 3), (2, 4)]], "held", True),  # another order in each epoch, for all of them alike
        ([[(1, 2), (3, 4)], [(1, 3), (2, 4)]], "broken", False),
        ([[(1, 2), (3, 4)], [(1, 2), (3, 4)]], "broken", True),  # each has its own
        ([[(1, 2), (3, 1)], [(1, 3), (2, 4)]], "held", False),  # one is given to both
    ],
)
def test_shares_of_another_order_in_each_epoch_are_a_condition(
    orders: list[list[tuple[int, ...]]], turns: Any, held: bool
) -> None:
    """Where a script takes the share of its worker by itself, and one device reads that of the first."""
    workers = [[(index, each[k]) for index, each in enumerate(orders, 1)] for k in range(2)]

    def trace(rows: list[tuple[int, tuple[int, ...]]], **counters: Any) -> RunTrace:
        given = GivenSeen(4, 2, 2)
        steps = [
            step(index, seen=Seen(index=index, at=0.0, examples=(ids,), given=given if counters else None))
            for index, ids in rows
        ]
        return RunTrace((client(*steps, **counters),))

    run = merge([each.clients[0] for each in map(trace, workers)])
    told = (StandIn("TF_CONFIG", "train.py:3", "2 workers, of which this is the first"),)
    case = Case(run, trace(workers[0], stand_ins=told), ExactTolerance())
    laws = [Judgement("rows_whole", "broken", compared=1), Judgement("examples_in_turn", turns, compared=1)]
    found = conditions_of(case, laws)[1]
    assert [each.code for each in found] == (["own_shares"] if held else [])
