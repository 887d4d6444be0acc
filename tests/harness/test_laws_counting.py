"""The laws that count: `steps_match_reference`, `examples_match_reference`, `updates_counted`; and `finite`."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.trace import Final, RunTrace
from harness.judging.laws import Case, Judgement, all_laws, judge_all
from harness.judging.tolerance import ExactTolerance
from tests.harness._traces import client, edit, exact_case, step, variable


def _judge(law: str, case: Case) -> Judgement:
    return next(found for found in all_laws() if found.id == law).judge(case)


def _with_steps(case: Case, number: int, steps: Any) -> Case:
    clients = list(case.run.clients)
    clients[number] = msgspec.structs.replace(clients[number], steps=tuple(steps))
    return Case(RunTrace(tuple(clients)), case.reference, case.tolerance)


def test_the_laws_come_in_a_fixed_order() -> None:
    """Every law is discovered once, in the order of reports; some are asked only of some runs."""
    names = [law.id for law in all_laws()]
    assert names == [
        "clients_agree",
        "begins_alike",
        "draws",
        "replicas_agree",
        "steps_match_reference",
        "resumes_exactly",
        "resumed_from_older",
        "examples_match_reference",
        "rows_whole",
        "data_intact",
        "examples_in_turn",
        "loss_matches_reference",
        "gradients_match_reference",
        "variables_match_reference",
        "metrics_match_reference",
        "predictions_match_reference",
        "evaluations_match_reference",
        "finite",
        "updates_counted",
        "replicas_ran",
        "placed_on_devices",
        "tasks_connected",
    ]
    followed = ("begins_alike", "draws", "rows_whole", "data_intact", "examples_in_turn", "evaluations_match_reference")
    some = (*followed, "resumes_exactly", "resumed_from_older", "placed_on_devices", "tasks_connected")
    asked = [name for name in names if name not in some]
    assert [judgement.law for judgement in judge_all(exact_case())] == asked


def test_equal_steps_hold() -> None:
    """The same steps on every client hold."""
    assert _judge("steps_match_reference", exact_case()).status == "held"


@pytest.mark.parametrize(
    ("keep", "first", "text"),
    [
        ([1, 2, 3], 4, "worker:1 recorded 3 steps, the reference 4; missing: step 4"),
        ([1, 2, 4], 3, "missing: step 3"),
        ([1, 2, 3, 4, 4], 4, "unexpected: step 4"),
        ([1, 2, 2, 4], 2, "missing: step 3; unexpected: step 2"),
    ],
    ids=["short", "hole", "repeated", "both"],
)
def test_a_lost_or_repeated_step_breaks(keep: list[int], first: int, text: str) -> None:
    """One step too few or too many on one client is found, with its number."""
    case = exact_case()
    steps = case.run.clients[1].steps
    judgement = _judge("steps_match_reference", _with_steps(case, 1, [steps[index - 1] for index in keep]))
    assert [(f.task, f.step) for f in judgement.findings] == [("worker:1", first)]
    assert text in judgement.findings[0].text


def test_a_missing_client_or_end_breaks() -> None:
    """A client without a trace, or a client that never reached record.final, is a finding."""
    case = exact_case()
    alone = Case(RunTrace(case.run.clients[:1]), case.reference, case.tolerance)
    assert "2 clients ran" in _judge("steps_match_reference", alone).findings[0].text
    endless = RunTrace((case.run.clients[0], msgspec.structs.replace(case.run.clients[1], final=None)))
    finding = _judge("steps_match_reference", Case(endless, case.reference, case.tolerance)).findings[0]
    assert (finding.task, finding.step) == ("worker:1", None)
    assert "the reference called record.final, worker:1 never did" in finding.text


def test_a_run_without_values_is_not_judged() -> None:
    """Empty steps observe nothing, so counting them proves nothing."""
    run = RunTrace((client(step(1), final=Final(1.0)),))
    assert not run.observed_anything
    assert _judge("steps_match_reference", Case(run, run, ExactTolerance())).status == "not_judged"


@pytest.mark.parametrize("marked", [True, False])
def test_epochs_are_counted_as_epochs(marked: bool) -> None:
    """A run that recorded only epochs matches the reference's epochs, whether marked or only numbered."""
    reference = exact_case().reference
    if not marked:
        for index in range(1, 5):
            reference = edit(reference, 0, index, epoch_end=False)
    epochs = [step(k, loss=np.float32(1), epoch=k) for k in (1, 2)]
    good = Case(RunTrace((client(*epochs, final=Final(1.0), per_epoch=True),)), reference, ExactTolerance())
    assert _judge("steps_match_reference", good).status == "held"
    short = Case(RunTrace((client(epochs[0], final=Final(1.0), per_epoch=True),)), reference, ExactTolerance())
    finding = _judge("steps_match_reference", short).findings[0]
    assert (finding.step, finding.observed, finding.expected) == (4, 1, 2)


def test_the_same_examples_hold_however_sharded() -> None:
    """Any partition of the global batch over clients and replicas holds."""
    for shape in ((1, 1), (1, 3), (2, 2), (4, 1)):
        assert (
            _judge("examples_match_reference", exact_case(clients=shape[0], local_replicas=shape[1])).status == "held"
        )


def test_one_example_of_64_missing_breaks() -> None:
    """One dropped example is named, per step, per epoch and overall."""
    judgement = _judge("examples_match_reference", exact_case(dropped=(100,)))
    first, epoch, overall = judgement.findings
    assert (first.step, first.index, first.observed, first.expected) == (2, (100,), 0, 1)
    assert "step 2: 63 examples, expected 64; missing 1 id: 100 [1 of 4 steps differ]" in first.text
    assert (epoch.step, epoch.index) == (2, (100,))
    assert "epoch 1: 127 examples, expected 128; missing 1 id: 100 [1 of 2 epochs differ]" in epoch.text
    assert (overall.step, overall.index) == (None, (100,))


def test_one_example_seen_twice_breaks() -> None:
    """An example that two replicas consumed is named with its surplus."""
    case = exact_case()
    found = case.run.clients[1].steps[0].examples
    assert found is not None
    run = edit(case.run, 1, 1, examples=((*found[0], 5), found[1]))
    finding = _judge("examples_match_reference", Case(run, case.reference, case.tolerance)).findings[0]
    assert (finding.index, finding.observed, finding.expected) == ((5,), 2, 1)
    assert "too many 1 id: 5 (5 on worker:0 replica 0 and worker:1 replica 2)" in finding.text


def test_swapped_steps_are_wrong_per_step_only() -> None:
    """The right examples in the wrong steps are found, and the text says that the whole is right."""
    case = exact_case()
    run = case.run
    for number in (0, 1):
        one, two = (run.clients[number].steps[k].examples for k in (0, 1))
        run = edit(edit(run, number, 1, examples=two), number, 2, examples=one)
    judgement = _judge("examples_match_reference", Case(run, case.reference, case.tolerance))
    assert len(judgement.findings) == 1
    assert "over all steps the examples are the same" in judgement.findings[0].text


def test_examples_of_some_clients_only_are_not_judged() -> None:
    """When a client recorded no examples, the law names it instead of guessing."""
    case = exact_case()
    run = case.run
    for index in range(1, 5):
        run = edit(run, 1, index, examples=None)
    judgement = _judge("examples_match_reference", Case(run, case.reference, case.tolerance))
    assert (judgement.status, judgement.reason) == ("not_judged", "only worker:0 recorded examples, not worker:1")
    for index in range(1, 5):
        run = edit(run, 0, index, examples=None)
    assert (
        "the run recorded no examples"
        in _judge("examples_match_reference", Case(run, case.reference, ExactTolerance())).reason
    )
    assert (
        "the reference recorded no" in _judge("examples_match_reference", Case(case.run, run, ExactTolerance())).reason
    )


def test_examples_of_epochs_are_compared_as_a_whole() -> None:
    """A run that recorded only epochs must consume each epoch's examples."""
    reference = exact_case().reference
    halves = (tuple(range(128)), tuple(range(128, 256)))
    epochs = [step(k, examples=(ids,), epoch=k) for k, ids in enumerate(halves, start=1)]
    good = Case(RunTrace((client(*epochs, per_epoch=True),)), reference, ExactTolerance())
    assert (_judge("examples_match_reference", good).status, _judge("examples_match_reference", good).compared) == (
        "held",
        2,
    )
    epochs[1] = step(2, examples=(halves[1][:-1],), epoch=2)
    bad = Case(RunTrace((client(*epochs, per_epoch=True),)), reference, ExactTolerance())
    assert _judge("examples_match_reference", bad).findings[0].index == (255,)


def _coordinated(scheduled: int | None, **variables: Any) -> Case:
    run = RunTrace((client(step(1, variables={"w": 1.0}), final=_final(variables), scheduled=scheduled),))
    return Case(run, run, ExactTolerance())


def _final(variables: dict[str, Any]) -> Final:
    return Final(1.0, tuple(variable(name, value) for name, value in variables.items()))


@pytest.mark.parametrize(
    "name", ["updates", "iterations", "global_step:0", "sgd/iteration", "Adam/iter:0", "a/b/iterations#2"]
)
def test_updates_equal_to_schedules_hold(name: str) -> None:
    """A counter under any of the usual names is compared with the closures scheduled; one lost or doubled breaks."""
    assert _judge("updates_counted", _coordinated(12, **{name: np.int64(12)})).status == "held"
    for applied, what in ((11, "1 lost"), (13, "1 too many")):
        finding = _judge("updates_counted", _coordinated(12, **{name: np.int64(applied)})).findings[0]
        assert (finding.observed, finding.expected, finding.variable) == (applied, 12, name)
        assert what in finding.text


@pytest.mark.parametrize(
    "variables",
    [{}, {"iterations": np.float32(12)}, {"iterations": np.ones(2, np.int64)}, {"my_iterations": np.int64(12)}],
    ids=["none", "float", "vector", "another-name"],
)
def test_no_counter_is_not_judged(variables: dict[str, Any]) -> None:
    """Without an integer scalar of a known name the law says what it looked for."""
    judgement = _judge("updates_counted", _coordinated(12, **variables))
    assert judgement.status == "not_judged"
    assert "12 closures were scheduled" in judgement.reason


def test_no_coordinator_is_not_judged() -> None:
    """Synchronous training schedules nothing."""
    assert _judge("updates_counted", _coordinated(None, iterations=np.int64(1))).reason == "no update by a coordinator"


def test_the_last_value_of_the_counter_counts() -> None:
    """Without a final record the last step's counter is used."""
    steps = [step(k, variables={"iterations": np.int64(3 * k)}) for k in (1, 2)]
    run = RunTrace((client(*steps, scheduled=6),))
    assert _judge("updates_counted", Case(run, run, ExactTolerance())).status == "held"
    assert _judge("updates_counted", _coordinated(0, iterations=np.int64(0))).status == "held"


def test_finite_holds_on_finite_runs() -> None:
    """A correct run is finite wherever the reference is."""
    judgement = _judge("finite", exact_case())
    assert judgement.status == "held"
    assert judgement.compared > 10


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_one_bad_element_on_a_replica_other_than_the_first_breaks(bad: float) -> None:
    """NaN or Inf in one element of one copy on the last replica is found there."""
    case = exact_case()
    good = np.ones(3, np.float32)
    wrong = good.copy()
    wrong[2] = bad
    run = edit(case.run, 1, 3, variables=(variable("w", [good, wrong], "mirrored"),))
    finding = _judge("finite", Case(run, case.reference, case.tolerance)).findings[0]
    assert (finding.task, finding.step, finding.variable, finding.index) == ("worker:1", 3, "w", (2,))
    assert "on worker:1 replica 1" in finding.text
    assert str(finding.observed) == str(bad)


def test_infinities_that_cancel_in_the_sum_are_found() -> None:
    """Each replica's part is looked at, so Inf on one and -Inf on another cannot hide."""
    reference = RunTrace((client(step(1, loss=np.float32(1))),))
    run = RunTrace((client(step(1, loss=[np.float32("inf"), np.float32("-inf")])),))
    assert _judge("finite", Case(run, reference, ExactTolerance())).status == "broken"


def test_a_reference_that_is_not_finite_allows_the_same() -> None:
    """Where the reference is NaN the law says nothing; elsewhere in the same array it does."""
    truth = np.array([np.nan, 1.0], np.float32)
    reference = RunTrace((client(step(1, loss=truth)),))
    assert _judge("finite", Case(reference, reference, ExactTolerance())).status == "held"
    run = RunTrace((client(step(1, loss=np.array([1.0, np.nan], np.float32))),))
    assert _judge("finite", Case(run, reference, ExactTolerance())).findings[0].index == (1,)


def test_a_wrong_shape_can_still_be_not_finite() -> None:
    """Shapes are another law's business; NaN is found all the same."""
    reference = RunTrace((client(step(1, loss=np.ones(2))),))
    run = RunTrace((client(step(1, loss=np.array([1.0, np.nan, 1.0]))),))
    assert _judge("finite", Case(run, reference, ExactTolerance())).findings[0].index == (1,)


def test_integers_alone_give_nothing_to_judge() -> None:
    """Without floating values the law is not judged."""
    run = RunTrace((client(step(1, loss=np.int64(1))),))
    assert _judge("finite", Case(run, run, ExactTolerance())).status == "not_judged"
