"""The laws that compare values with the reference hold on honest runs and break on the smallest wrong ones."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.comparing import compare
from harness.evidence.observed import Observed, unique_names
from harness.evidence.trace import Array, Final, RunTrace, Value
from harness.judging.laws import Case, Judgement, all_laws, judge_all
from harness.judging.laws.protocol import FINDINGS_MAX
from harness.judging.tolerance import ExactTolerance
from tests.harness._traces import Training, client, derived_case, edit, exact_case, step, values, variable

MATCHING = [
    "loss_matches_reference",
    "gradients_match_reference",
    "variables_match_reference",
    "metrics_match_reference",
    "predictions_match_reference",
]


def _judge(law: str, case: Case) -> Judgement:
    return next(found for found in all_laws() if found.id == law).judge(case)


def _broken(case: Case) -> dict[str, Judgement]:
    return {judgement.law: judgement for judgement in judge_all(case) if judgement.status == "broken"}


def _case(run: Any, reference: Any) -> Case:
    """One step with the given arguments of `step` on each side."""
    return Case(RunTrace((client(step(1, **run)),)), RunTrace((client(step(1, **reference)),)), ExactTolerance())


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("per_replica", [False, True])
def test_honest_runs_hold_exactly(shape: tuple[int, int], per_replica: bool) -> None:
    """Exactly representable programs give the same bits under any sharding, whichever way the loss is reported."""
    case = exact_case(clients=shape[0], local_replicas=shape[1], per_replica_loss=per_replica)
    for law in MATCHING:
        judgement = _judge(law, case)
        assert (judgement.status, judgement.worst_ratio) == ("held", 0), judgement
        assert judgement.compared > 0


@pytest.mark.parametrize("shape", [(1, 2), (1, 3), (2, 1), (2, 2), (4, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_honest_rounding_is_within_the_derived_bound(shape: tuple[int, int], dtype: str) -> None:
    """Sums in another order differ in bits and stay within the bound."""
    case = derived_case(
        Training(quadratic=True, steps=6, dtype=dtype), clients=shape[0], local_replicas=shape[1], dtype=dtype
    )
    assert _broken(case) == {}


def test_honest_rounding_differs_at_all() -> None:
    """The run above is a real test of the bound: its worst ratio is neither zero nor anywhere near one."""
    ratio = _judge("loss_matches_reference", derived_case()).worst_ratio
    assert isinstance(ratio, float)
    assert 0 < ratio < 0.5


@pytest.mark.parametrize("make", [exact_case, derived_case])
@pytest.mark.parametrize(
    ("mistake", "first_step", "laws"),
    [
        ({"dropped": (17,)}, 1, {"gradients_match_reference", "variables_match_reference"}),
        ({"dropped": (64 * 3,)}, 4, {"gradients_match_reference", "variables_match_reference"}),
        ({"loss_factor": 1 + 1 / 64}, 1, {"loss_matches_reference"}),
        ({"loss_factor": 1 - 1 / 64}, 1, {"loss_matches_reference"}),
        ({"gradient_factor": 1 - 1 / 64}, 1, {"gradients_match_reference", "variables_match_reference"}),
        ({"skipped_update": (4, 0)}, 4, {"variables_match_reference"}),
    ],
    ids=["one-example", "one-example-late", "loss+1/B", "loss-1/B", "gradient-1/B", "skipped-update"],
)
def test_the_smallest_mistakes_break(make: Any, mistake: dict[str, Any], first_step: int, laws: set[str]) -> None:
    """One example of 64, one part in 64, or one update skipped is found in both tiers, at its step."""
    broken = _broken(make(**mistake))
    assert laws <= set(broken)
    for law in laws:
        assert broken[law].findings[0].step == first_step
        assert (broken[law].worst_ratio or 0) > 1


def test_one_ulp_breaks_the_exact_tier() -> None:
    """The exact tier notices one unit in the last place and names the element."""
    good = np.ones((2, 3), np.float32)
    bad = good.copy()
    bad[1, 2] = np.nextafter(np.float32(1), np.float32(2))
    finding = _judge(
        "variables_match_reference", _case({"variables": {"w": bad}}, {"variables": {"w": good}})
    ).findings[0]
    assert (finding.step, finding.observable, finding.variable, finding.index) == (1, "variables", "w", (1, 2))
    assert (finding.observed, finding.expected, finding.bound) == (float(bad[1, 2]), 1.0, 0.0)
    assert finding.ratio == math.inf
    assert "step 1, variables 'w'[1, 2]: observed 1.0000001, expected 1.0" in finding.text


def test_integers_are_exact_in_the_derived_tier() -> None:
    """A counter off by one is wrong however generous the bound."""
    case = derived_case()
    wrong = tuple(variable(v.name, np.int64(7)) if v.name == "iteration" else v for v in _variables(case, 6))
    judgement = _judge(
        "variables_match_reference", Case(edit(case.run, 0, 6, variables=wrong), case.reference, case.tolerance)
    )
    assert [(f.step, f.variable, f.observed, f.expected) for f in judgement.findings] == [(6, "iteration", 7, 6)]


def _variables(case: Case, index: int) -> Any:
    return case.run.clients[0].steps[index - 1].variables


def test_integers_ignore_any_bound() -> None:
    """Even a tolerance that grants integers room, as none of ours does, cannot make unequal integers equal."""
    three, four = (Observed("int64", np.asarray(number)) for number in (3, 4))
    assert compare(three, four, bound=100.0).ratio == math.inf
    assert compare(three, three, bound=0.0).ratio == 0


def test_large_integers_do_not_round() -> None:
    """Neighbouring integers beyond 2**53 and unsigned ones compare exactly."""
    for dtype in (np.int64, np.uint64):
        case = _case({"metrics": {"n": dtype(2**60 + 1)}}, {"metrics": {"n": dtype(2**60)}})
        assert _judge("metrics_match_reference", case).status == "broken"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_in_the_reference_is_not_judged(value: float) -> None:
    """NaN matches NaN and everything else as well, so it proves nothing; the finite elements beside it are judged."""
    for other in (1.0, float("nan"), float("inf"), float("-inf")):
        blind = _case({"loss": np.float32(other)}, {"loss": np.float32(value)})
        assert _judge("loss_matches_reference", blind).status == "not_judged"
        assert _judge("finite", blind).status == "not_judged"
    partly = {"variables": {"w": np.asarray([value, 1.0], np.float32)}}
    for second, status in ((1.0, "held"), (2.0, "broken"), (float("nan"), "broken")):
        case = _case({"variables": {"w": np.asarray([0.0, second], np.float32)}}, partly)
        assert _judge("variables_match_reference", case).status == status


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_run_that_is_not_finite_breaks(value: float) -> None:
    """Where the reference is finite, no bound admits NaN or an infinity."""
    case = _case({"loss": np.float32(value)}, {"loss": np.float32(1)})
    judgement = _judge("loss_matches_reference", case)
    assert (judgement.status, judgement.worst_ratio) == ("broken", math.inf)
    assert _judge("finite", case).status == "broken"


@pytest.mark.parametrize(
    ("run", "reference", "text"),
    [
        ({"w": np.ones(3)}, {"w": np.ones(2)}, "has shape (3,), expected (2,)"),
        ({"w": np.ones(1)}, {"w": np.float64(1)}, "has shape (1,), expected ()"),
        ({}, {"w": np.ones(2)}, "recorded by the reference, but not by the run"),
        ({"w": np.ones(2), "u": np.ones(2)}, {"w": np.ones(2)}, "recorded by the run, but not by the reference"),
    ],
    ids=["longer", "broadcastable", "missing", "extra"],
)
def test_structure_is_compared(run: dict[str, Any], reference: dict[str, Any], text: str) -> None:
    """Another shape, a missing and an extra variable are findings, not exceptions."""
    judgement = _judge("variables_match_reference", _case({"variables": run}, {"variables": reference}))
    assert judgement.status == "broken"
    assert text in judgement.findings[0].text
    assert judgement.worst_ratio == math.inf


def test_a_numbered_name_may_be_taken() -> None:
    """A variable that is called like a numbered one keeps its own value."""
    assert unique_names(["v", "v#2", "v"]) == ("v", "v#2", "v#3")
    assert len(set(unique_names(["v", "v", "v#2", "v#2", "v#2#2"]))) == 5


def test_repeated_names_are_told_apart() -> None:
    """Two variables of the same name are compared in order, not with each other."""
    pair = (variable("v", 1.0), variable("v", 2.0))
    swapped = (variable("v", 1.0), variable("v", 3.0))
    truth = RunTrace((client(_with(pair)),))
    good = Case(truth, truth, ExactTolerance())
    assert _judge("variables_match_reference", good).compared == 2
    bad = Case(RunTrace((client(_with(swapped)),)), good.reference, ExactTolerance())
    assert _judge("variables_match_reference", bad).findings[0].variable == "v#2"


def _with(variables: Any) -> Any:
    from msgspec.structs import replace

    return replace(step(1), variables=variables)


@pytest.mark.parametrize("law", MATCHING)
def test_nothing_recorded_is_not_judged(law: str) -> None:
    """A law without data says so, and says which side lacks it."""
    observable = law.partition("_")[0]
    judgement = _judge(law, _case({}, {}))
    assert (judgement.status, judgement.reason) == (
        "not_judged",
        f"neither the run nor the reference recorded {observable}",
    )
    full = exact_case()
    silent = Case(RunTrace((client(step(1)),)), full.reference, ExactTolerance())
    kept_back = _judge(law, silent)
    assert kept_back.status == ("not_judged" if observable == "predictions" else "broken")  # it reached no end
    untrue = Case(full.run, RunTrace((client(*(step(i) for i in range(1, 5)), final=Final(1.0)),)), ExactTolerance())
    assert _judge(law, untrue).status == "broken"  # values that no truth vouches for do not pass


def test_a_value_left_out_at_one_step_is_found() -> None:
    """A loss recorded at other steps but not at this one is a finding at this one."""
    case = exact_case()
    judgement = _judge("loss_matches_reference", Case(edit(case.run, 0, 3, loss=None), case.reference, case.tolerance))
    assert judgement.status == "held"  # worker:1 recorded it
    run = edit(edit(case.run, 0, 3, loss=None), 1, 3, loss=None)
    judgement = _judge("loss_matches_reference", Case(run, case.reference, case.tolerance))
    assert [(finding.step, finding.observed) for finding in judgement.findings] == [(3, None)]


def test_per_replica_values_are_summed_over_all_clients() -> None:
    """Parts of all replicas of all clients make the global value; a client without parts is named."""
    parts = [[np.float32(1), np.float32(2)], [np.float32(4), np.float32(8)]]
    clients = [client(step(1, loss=part), task=f"worker:{k}", clients=2, replicas=4) for k, part in enumerate(parts)]
    reference = RunTrace((client(step(1, loss=np.float32(15))),))
    assert (
        _judge("loss_matches_reference", Case(RunTrace(tuple(clients)), reference, ExactTolerance())).status == "held"
    )
    clients[1] = client(step(1), task="worker:1", clients=2, replicas=4)
    judgement = _judge("loss_matches_reference", Case(RunTrace(tuple(clients)), reference, ExactTolerance()))
    assert "missing from worker:1" in judgement.findings[0].text


def test_per_replica_parts_never_broadcast() -> None:
    """A vector part and a scalar part cannot be summed, and that is a finding."""
    case = _case({"loss": [np.ones(2), np.ones(1)]}, {"loss": np.full(2, 2.0)})
    judgement = _judge("loss_matches_reference", case)
    assert judgement.status == "broken"
    assert "different shapes" in judgement.findings[0].text


@pytest.mark.parametrize(
    ("parts", "reference", "text"),
    [
        ([np.uint64(2**63)] * 2, np.uint64(0), "which are uint64, does not fit into 64 bits"),
        ([np.int64(2**62)] * 4, np.int64(0), "does not fit into 64 bits"),
        ([np.int64(-(2**63))] * 2, np.int64(0), "which are int64, does not fit into 64 bits"),
        ([np.int64(1), np.float64(0.5)], np.int64(1), "different dtypes: float64, int64"),
    ],
)
def test_whole_numbers_of_replicas_never_wrap_around(parts: Any, reference: Any, text: str) -> None:
    """A sum beyond 64 bits is a finding, and so are parts of which one would be truncated."""
    judgement = _judge("metrics_match_reference", _case({"metrics": {"n": parts}}, {"metrics": {"n": reference}}))
    assert judgement.status == "broken"
    assert text in judgement.findings[0].text


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        ([np.uint64(2**63 - 1), np.uint64(1)], 2**63),
        ([np.uint64(2**64 - 1), np.uint64(0)], 2**64 - 1),
        ([np.int64(2**63 - 1), np.int64(-1)], 2**63 - 2),
        ([np.int64(-(2**62))] * 2, -(2**63)),
        ([np.uint8(200), np.uint8(200)], 400),
    ],
)
def test_sums_of_whole_numbers_are_exact(parts: Any, total: int) -> None:
    """Up to the largest that 64 bits hold, and its neighbour is another number."""

    def status(reference: int) -> str:
        case = _case({"metrics": {"n": parts}}, {"metrics": {"n": np.asarray(reference)}})
        return _judge("metrics_match_reference", case).status

    assert status(total) == "held"
    assert status(total - 1) == "broken" if total > -(2**63) else status(total + 1) == "broken"


def _ragged(flat: list[float], *lengths: tuple[int, ...]) -> Array:
    return Array.of(np.asarray(flat), lengths)


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([([1.0, 2.0, 3.0], (2, 1))], "held"),
        ([([1.0, 2.0, 3.0], (1, 2))], "broken"),
        ([([1.0, 2.0, 3.0], (3,))], "broken"),
        ([([1.0, 2.0], (2,)), ([3.0], (1,))], "held"),
        ([([1.0], (1,)), ([2.0, 3.0], (2,))], "broken"),
    ],
)
def test_the_rows_of_ragged_values_are_compared(parts: Any, status: str) -> None:
    """The same flat values in other rows are other predictions; those of replicas follow each other."""

    def run(arrays: Any) -> RunTrace:
        value = Value("y", tuple(_ragged(*array) for array in arrays), per_replica=len(arrays) > 1)
        return RunTrace((client(final=Final(1.0, predictions=(value,))),))

    case = Case(run(parts), run([([1.0, 2.0, 3.0], (2, 1))]), ExactTolerance())
    judgement = _judge("predictions_match_reference", case)
    assert judgement.status == status
    if status == "broken":
        assert "has rows of [" in judgement.findings[0].text


def test_ragged_values_of_clients_are_compared_with_their_rows() -> None:
    """Clients that report the same flat values in other rows disagree; replicas' parts in other rows have no sum."""
    arrays = [_ragged([1.0, 2.0], (1, 1)), _ragged([1.0, 2.0], (2, 0))]
    steps = [step(1, metrics={"m": 0.0}) for _ in arrays]
    clients = tuple(
        client(_with_metric(one, array), task=f"worker:{k}", clients=2)
        for k, (one, array) in enumerate(zip(steps, arrays, strict=True))
    )
    case = Case(RunTrace(clients), RunTrace((clients[0],)), ExactTolerance())
    assert "rows of [2, 0] against [1, 1]" in _judge("clients_agree", case).findings[0].text
    together = Value("m", tuple(arrays), per_replica=True)
    run = RunTrace((client(msgspec.structs.replace(steps[0], metrics=(together,))),))
    judgement = _judge("metrics_match_reference", Case(run, RunTrace((clients[0],)), ExactTolerance()))
    assert "different rows" in judgement.findings[0].text


def _with_metric(record: Any, array: Array) -> Any:
    return msgspec.structs.replace(record, metrics=(Value("m", (array,)),))


def test_empty_arrays_have_shapes_too() -> None:
    """Nothing in three columns is not nothing in two; rows without elements count as rows."""
    for ours, theirs in (((0, 3), (0, 2)), ((0,), ()), ((0,), (1,))):
        case = _case({"metrics": {"m": np.zeros(ours)}}, {"metrics": {"m": np.zeros(theirs)}})
        assert _judge("metrics_match_reference", case).status == "broken"
    same = _case({"metrics": {"m": np.zeros((0, 3))}}, {"metrics": {"m": np.zeros((0, 3))}})
    assert _judge("metrics_match_reference", same).status != "broken"
    parts = _case({"metrics": {"m": [np.zeros(0), np.zeros(1)]}}, {"metrics": {"m": np.zeros(0)}})
    assert "different shapes" in _judge("metrics_match_reference", parts).findings[0].text


def test_per_replica_predictions_are_rows_in_replica_order() -> None:
    """Sharded predictions are put one after another; replicas that all predicted everything count once."""
    rows = np.arange(6.0).reshape(3, 2)

    def judge(predictions: Any, expected: Any = rows) -> Judgement:
        run = RunTrace((client(final=Final(1.0, predictions=values({"y": predictions}))),))
        reference = RunTrace((client(final=Final(1.0, predictions=values({"y": expected}))),))
        return _judge("predictions_match_reference", Case(run, reference, ExactTolerance()))

    assert judge([rows[:2], rows[2:]]).status == "held"
    assert judge([rows, rows]).status == "held"
    assert judge([rows[2:], rows[:2]]).status == "broken"
    assert judge([rows[:2], rows[2:, :1]]).status == "broken"
    equal = np.zeros((2, 1))
    assert [judge([equal, equal], np.zeros((number, 1))).status for number in (2, 3, 4)] == ["held", "broken", "held"]
    assert judge([equal, equal], np.ones((4, 1))).status == "broken"


def test_on_read_variables_compare_by_their_aggregate() -> None:
    """The copies of an on-read variable may be anything; its aggregate is its value."""
    run = {"variables": {"m": variable("m", [1.0, 2.0], "on_read", aggregated=3.0)}}
    assert _judge("variables_match_reference", _case(run, {"variables": {"m": np.float64(3)}})).status == "held"
    assert _judge("variables_match_reference", _case(run, {"variables": {"m": np.float64(1)}})).status == "broken"


def test_another_dtype_is_mentioned() -> None:
    """When numbers differ, so may the dtypes, and the text says it."""
    case = _case({"loss": np.float16(0.1)}, {"loss": np.float32(0.1)})
    assert "(as float16, the reference as float32)" in _judge("loss_matches_reference", case).findings[0].text


def test_epoch_ends_align_with_the_reference() -> None:
    """A run that recorded only epochs is compared with the reference's steps that end them, under their numbers."""
    reference = exact_case().reference
    by_epoch = [
        step(k, loss=_loss(reference, 2 * k), variables={"iteration": np.int64(2 * k)}, epoch=k) for k in (1, 2)
    ]
    good = Case(RunTrace((client(*by_epoch, per_epoch=True),)), reference, ExactTolerance())
    assert _judge("loss_matches_reference", good).compared == 2
    assert _judge("loss_matches_reference", good).status == "held"
    bad = Case(
        RunTrace((client(by_epoch[0], step(2, loss=np.float32(77)), per_epoch=True),)), reference, ExactTolerance()
    )
    assert [finding.step for finding in _judge("loss_matches_reference", bad).findings] == [4]


def _loss(run: RunTrace, index: int) -> Any:
    loss = run.clients[0].steps[index - 1].loss
    assert isinstance(loss, Value)
    return loss.parts[0].numpy()


def test_the_report_is_bounded_and_ordered() -> None:
    """Of many wrong variables the worst of the earliest step comes first, and their number is told."""
    count = 3 * FINDINGS_MAX
    reference = {f"v{k}": np.zeros(2) for k in range(count)}
    case = derived_case()
    run = {f"v{k}": np.array([0.0, 1.0]) for k in range(count)}
    judgement = _judge("variables_match_reference", _case({"variables": run}, {"variables": reference}))
    assert len(judgement.findings) == FINDINGS_MAX
    assert f"the first of {count} differences" in judgement.findings[0].text
    scaled = derived_case(gradient_factor=2.0)
    steps = [finding.step for finding in _judge("variables_match_reference", scaled).findings]
    assert steps == [1]
    assert _broken(case) == {}
