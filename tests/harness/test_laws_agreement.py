"""The laws `clients_agree` and `replicas_agree`: bit for bit, over replicas and clients."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from harness.evidence.trace import Array, ClientTrace, Final, RunTrace, Value
from harness.judging.laws import Case, Judgement, all_laws
from harness.judging.tolerance import ExactTolerance
from tests.harness._traces import client, edit, exact_case, step, values, variable


def _judge(law: str, case: Case) -> Judgement:
    return next(found for found in all_laws() if found.id == law).judge(case)


def _run(*clients: ClientTrace) -> Case:
    run = RunTrace(clients)
    return Case(run, run, ExactTolerance())


def _next(value: float, dtype: str) -> np.generic:
    found: np.generic = np.nextafter(np.asarray(value, dtype), np.asarray(np.inf, dtype))
    return found


def test_good_clients_and_replicas_agree() -> None:
    """A correct run holds both laws and says how much was compared."""
    case = exact_case()
    for law in ("clients_agree", "replicas_agree"):
        judgement = _judge(law, case)
        assert judgement.status == "held"
        assert judgement.compared > 4


def test_one_client_with_one_copy_has_nothing_to_agree_with() -> None:
    """Neither law passes for lack of a second opinion."""
    case = exact_case(clients=1, local_replicas=1)
    assert _judge("clients_agree", case).reason == "there is one client only"
    assert _judge("replicas_agree", case).reason == "every variable has one copy only"
    assert _judge("replicas_agree", _run(client(step(1)))).reason == "no variables were recorded"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_copy_off_by_one_ulp_breaks(dtype: str) -> None:
    """One replica's copy one unit in the last place away is found, with its place and distance."""
    good = np.ones(3, dtype)
    bad = good.copy()
    bad[1] = _next(1.0, dtype)
    finding = _judge("replicas_agree", _run(client(step(1, variables={"w": [good, good, bad]}), replicas=3))).findings[
        0
    ]
    assert (finding.task, finding.step, finding.variable, finding.index) == ("worker:0", 1, "w", (1,))
    assert (finding.observed, finding.expected, finding.bound) == (float(bad[1]), 1.0, 0.0)
    assert "on worker:0 replica 2, compared with worker:0 replica 0" in finding.text
    assert "1 ulp apart" in finding.text


def test_bfloat16_counts_its_own_ulps() -> None:
    """A bfloat16, stored as float32, is one ulp from its bfloat16 neighbour."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    one, neighbour = (np.asarray(number, ml_dtypes.bfloat16) for number in (1.0, 1.0078125))
    finding = _judge("replicas_agree", _run(client(step(1, variables={"w": [one, neighbour]})))).findings[0]
    assert "1 ulp apart" in finding.text


def test_signed_zeros_are_different_bits() -> None:
    """Copies that are equal but not identical have drifted apart."""
    case = _run(client(step(1, variables={"w": [np.float32(0.0), np.float32(-0.0)]})))
    assert "1 ulp apart" in _judge("replicas_agree", case).findings[0].text


def test_identical_nan_copies_agree() -> None:
    """Bit-identity is not equality: the same NaN everywhere is agreement."""
    assert _judge("replicas_agree", _run(client(step(1, variables={"w": [np.float32("nan")] * 2})))).status == "held"


@pytest.mark.parametrize(("replica", "task"), [(1, "worker:0"), (2, "worker:1"), (3, "worker:1")])
def test_a_skipped_update_on_one_replica_breaks(replica: int, task: str) -> None:
    """A replica that skips one update differs from then on, on whichever client it lives."""
    finding = _judge("replicas_agree", exact_case(skipped_update=(2, replica))).findings[0]
    assert (finding.step, finding.task) == (2, task)


def test_copies_are_compared_at_the_end_too() -> None:
    """A copy that differs only in the final record is found there."""
    case = exact_case()
    wrong = edit(case.run, 1, None, variables=(variable("w", [np.zeros(3, np.float32)] * 2, "mirrored"),))
    judgement = _judge("replicas_agree", Case(wrong, case.reference, case.tolerance))
    assert [finding.step for finding in judgement.findings] == [None]
    assert "at the end" in judgement.findings[0].text


def test_on_read_copies_may_differ_and_aggregates_may_not() -> None:
    """Copies of an on-read variable are each replica's own; the aggregate is the same for all clients."""
    one, two, odd = (variable("m", [1.0, 2.0], "on_read", aggregated=total) for total in (3.0, 3.0, 4.0))
    assert _judge("replicas_agree", _run(client(step(1, variables={"m": one})))).status == "not_judged"
    pair = [client(step(1, variables={"m": v}), task=f"worker:{k}", clients=2) for k, v in enumerate((one, two))]
    assert _judge("replicas_agree", _run(*pair)).status == "held"
    pair[1] = client(step(1, variables={"m": odd}), task="worker:1", clients=2)
    assert _judge("replicas_agree", _run(*pair)).status == "broken"


def test_shapes_dtypes_and_names_are_compared() -> None:
    """Another shape or dtype, or a variable that one client lacks, is a finding."""
    for other in (np.ones(2, np.float32), np.ones(3, np.float64)):
        judgement = _judge("replicas_agree", _run(client(step(1, variables={"w": [np.ones(3, np.float32), other]}))))
        assert "against" in judgement.findings[0].text
    pair = [client(step(1, variables={name: 1.0}), task=f"worker:{k}", clients=2) for k, name in enumerate("vw")]
    texts = [finding.text for finding in _judge("replicas_agree", _run(*pair)).findings]
    assert any("not recorded by worker:1" in text for text in texts)
    assert any("not recorded by worker:0" in text for text in texts)


@pytest.mark.parametrize("observable", ["loss", "gradients", "metrics"])
def test_a_client_one_ulp_off_breaks(observable: str) -> None:
    """A reduced value that differs by one bit on one client is found."""
    case = exact_case()
    recorded = getattr(case.run.clients[1].steps[2], observable)
    first = recorded if isinstance(recorded, Value) else recorded[0]
    array = first.parts[0].numpy().copy()
    array[...] = array + 1 if array.dtype.kind == "i" else np.nextafter(array, np.asarray(np.inf, array.dtype))
    wrong = msgspec.structs.replace(first, parts=(Array.of(array),))
    changes = {observable: wrong if isinstance(recorded, Value) else (wrong,)}
    judgement = _judge("clients_agree", Case(edit(case.run, 1, 3, **changes), case.reference, case.tolerance))
    finding = judgement.findings[0]
    assert (judgement.status, finding.task, finding.step, finding.observable) == ("broken", "worker:1", 3, observable)


def test_predictions_must_agree() -> None:
    """Predictions at the end are compared across clients."""
    case = exact_case()
    wrong = edit(case.run, 1, None, predictions=values({"y": np.zeros(5, np.float32)}))
    judgement = _judge("clients_agree", Case(wrong, case.reference, case.tolerance))
    assert [(f.step, f.observable, f.variable) for f in judgement.findings] == [(None, "predictions", "y")]


def test_per_replica_values_are_each_clients_own() -> None:
    """Parts not yet reduced legitimately differ; reporting parts on one client and a total on the other does not."""
    assert _judge("clients_agree", exact_case(per_replica_loss=True)).status == "held"
    mixed = [np.float32(2), [np.float32(1), np.float32(1)]]
    pair = [client(step(1, loss=loss), task=f"worker:{k}", clients=2) for k, loss in enumerate(mixed)]
    assert "one value per replica" in _judge("clients_agree", _run(*pair)).findings[0].text


def test_the_number_of_steps_must_agree() -> None:
    """A client that stops one step early is named, at the step it lacks."""
    case = exact_case()
    short = msgspec.structs.replace(case.run.clients[1], steps=case.run.clients[1].steps[:-1])
    run = RunTrace((case.run.clients[0], short))
    finding = _judge("clients_agree", Case(run, case.reference, case.tolerance)).findings[0]
    assert (finding.step, finding.observed, finding.expected) == (4, 3, 4)
    assert "worker:1 recorded 3 steps, worker:0 recorded 4" in finding.text


@pytest.mark.parametrize("observable", ["loss", "gradients", "variables", "metrics", "examples"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_client_may_not_leave_out_what_another_records(observable: str, number: int) -> None:
    """A worker that keeps its variables to itself at one step could have diverged there."""
    case = exact_case()
    gap = edit(case.run, number, 2, **{observable: None})
    (finding,) = _judge("clients_agree", Case(gap, case.reference, case.tolerance)).findings
    assert (finding.step, finding.observable, finding.task) == (2, observable, f"worker:{number}")
    assert f"recorded by worker:{1 - number}, but not by worker:{number}" in finding.text


def test_a_client_that_leaves_out_everything_is_found() -> None:
    """An empty `record.step()`, at which another client reports, agrees with nothing."""
    run = RunTrace((client(step(1, loss=1.0), clients=2), client(step(1), task="worker:1", clients=2)))
    judgement = _judge("clients_agree", Case(run, run, ExactTolerance()))
    assert judgement.status == "broken"
    chief_only = edit(exact_case().run, 1, None, predictions=None)
    assert "not by worker:1" in _judge("clients_agree", Case(chief_only, chief_only, ExactTolerance())).findings[0].text


def test_what_has_no_elements_is_not_compared() -> None:
    """Empty arrays agree on nothing, and clients that record nothing in common have not agreed."""
    empty = np.zeros(0, np.float32)
    pair = [client(step(1, loss=empty, variables={"w": empty}), task=f"worker:{k}", clients=2) for k in range(2)]
    for law in ("clients_agree", "replicas_agree", "loss_matches_reference", "finite"):
        assert _judge(law, _run(*pair)).status == "not_judged"
    mixed = [
        client(step(1, variables={"w": [1.0, 1.0], "nothing": [empty, empty]}), task=f"worker:{k}", clients=2)
        for k in range(2)
    ]
    judgement = _judge("replicas_agree", _run(*mixed))
    assert (judgement.status, judgement.compared, judgement.recorded) == ("held", 3, 6)
    assert _judge("clients_agree", _run(*mixed)).status == "not_judged"


def test_a_reduced_value_has_one_part() -> None:
    """A value with several parts that is not per replica cannot be compared and says so."""
    odd = Value("loss", (Array.of(1.0), Array.of(1.0)))
    case = exact_case()
    run = edit(edit(case.run, 0, 1, loss=odd), 1, 1, loss=odd)
    assert "one part" in _judge("clients_agree", Case(run, case.reference, case.tolerance)).findings[0].text
    text = _judge("loss_matches_reference", Case(run, case.reference, case.tolerance)).findings[0].text
    assert "recorded 2 parts" in text


def test_final_without_variables_is_fine() -> None:
    """An empty final record compares nothing."""
    assert _judge("replicas_agree", _run(client(final=Final(1.0)))).status == "not_judged"
