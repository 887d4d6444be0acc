"""What steps and evaluations give back: compared where it is one number for all; its scale is a condition."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from harness.evidence.counters import Counters
from harness.evidence.trace import EVALUATE, Array, ClientTrace, Evaluated, Header, RunTrace, Seen, Value
from harness.judging.conditions import conditions_of
from harness.judging.interruption import Interruption
from harness.judging.laws.evaluations_match_reference import LAW
from harness.judging.laws.protocol import Case, Finding, Judgement
from harness.judging.tolerance import DerivedTolerance
from tests.harness._loop import LOOP, Verified
from tests.harness._traces import step

_RIGHT = 0.75


def _client(
    *numbers: float, task: str = "local:0", replicas: int = 1, apart: str | None = None, trains: bool = False
) -> ClientTrace:
    """One that was given these numbers by its steps, or by evaluations after them, one each."""
    header = Header(task, 0, "mirrored-2", replicas, replicas, 1, 20, follows=replicas == 1)
    evaluated = tuple(
        Evaluated(after, 0, 0.0, "measured", (Value("result", (Array.of(number),)),), apart, trains)
        for after, number in enumerate(numbers, start=1)
    )
    return ClientTrace(header, evaluated=evaluated)


def _case(*run: ClientTrace, reference: ClientTrace) -> Case:
    truth = RunTrace((reference,))
    clients = tuple(
        msgspec.structs.replace(each, header=msgspec.structs.replace(each.header, replicas=2)) for each in run
    )
    return Case(RunTrace(clients), truth, DerivedTolerance(truth, []), follows=True)


@pytest.mark.parametrize(
    ("number", "status", "compared"),
    [
        (_RIGHT, "held", 2),
        (_RIGHT * 1.01, "broken", 2),
        (_RIGHT * 1.9, "broken", 2),
        (_RIGHT * 2, "broken", 2),
        (_RIGHT / 2, "broken", 2),
    ],
)
def test_a_number_is_that_of_one_device(number: float, status: str, compared: int) -> None:
    """Of two evaluations the second one may be wrong."""
    found = LAW.judge(_case(_client(0.5, number, replicas=2), reference=_client(0.5, _RIGHT)))
    assert (found.status, found.compared) == (status, compared)
    assert [finding.step for finding in found.findings] == ([2] if status == "broken" else [])


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_what_a_program_scales_each_time_is_not_compared(factor: float) -> None:
    """It may do so with what it was given back; one that is scaled once is wrong."""
    run = _client(0.5 * factor, _RIGHT * factor, replicas=2)
    found = LAW.judge(_case(run, reference=_client(0.5, _RIGHT)))
    assert (found.status, "scales" in found.reason) == ("not_judged", True)


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize(
    ("numbers", "given"),
    [
        ((0.5, _RIGHT), None),
        ((1.0, 2 * _RIGHT), "2 times what one device gets"),
        ((0.25, _RIGHT / 2), "1/2 of what one device gets"),
        ((0.3, _RIGHT), "0.3 where one device gets 0.5"),  # of an evaluation it is a finding
        ((0.5, 2 * _RIGHT), "1.5 where one device gets 0.75"),  # as of a smaller last batch
    ],
)
def test_what_calls_give_back_otherwise_is_a_condition(
    numbers: tuple[float, ...], given: str | None, trains: bool
) -> None:
    """A loss that is printed may be scaled by the replicas, or be that of one of them, in a right training."""
    case = _case(_client(*numbers, replicas=2, trains=trains), reference=_client(0.5, _RIGHT, trains=trains))
    _, found = conditions_of(case, [])
    told = given is not None and (trains or "where" not in given)
    assert [(each.code, each.text) for each in found] == (
        [("given_back", f"that what measured gives back is {given}")] if told else []
    )
    assert LAW.concerns(case) is not trains
    interruption = Interruption(1, case.run, 2, False, case.reference, "mirrored-2")
    assert conditions_of(replace(case, interruption=interruption), [])[1] == ()
    assert conditions_of(replace(case, where="in part 1 of 2"), [])[1] == ()


@pytest.mark.parametrize(("wrong", "told"), [(1, False), (2, False), (3, True)])
def test_what_a_wrong_step_gives_back_follows_from_it(wrong: int, told: bool) -> None:
    """So does what later ones give back."""
    case = _case(_client(0.5, 2.0, replicas=2, trains=True), reference=_client(0.5, 1.0, trains=True))
    finding = Finding("variables_match_reference", "off", step=wrong)
    _, found = conditions_of(case, [Judgement(finding.law, "broken", findings=(finding,))])
    assert bool(found) is told


@pytest.mark.parametrize(("after", "told"), [(2, True), (3, False)])
def test_what_a_metric_keeps_is_not_known_behind_a_step_that_is_left_out(after: int, told: bool) -> None:
    """One device has not seen all of it then."""
    run, truth = (_client(0.5, number, replicas=2, trains=True) for number in (2 * _RIGHT, _RIGHT))
    late = [(each.evaluated[0], msgspec.structs.replace(each.evaluated[1], after=after)) for each in (run, truth)]
    clients = [msgspec.structs.replace(each, evaluated=calls) for each, calls in zip((run, truth), late, strict=True)]
    _, found = conditions_of(_case(clients[0], reference=clients[1]), [])
    assert bool(found) is told


@pytest.mark.parametrize(
    ("shapes", "places", "trains", "told"),
    [
        ((4, 8), 1, False, "gives back an array of shape [4] where one device gets [8]"),
        ((4, 8), 1, True, "gives back an array of shape [4] where one device gets [8]"),
        ((8, 8), 1, False, None),
        ((4, 8), 2, False, None),  # of two parts, each has a place of its own
    ],
)
def test_another_shape_is_a_condition(shapes: tuple[int, int], places: int, trains: bool, told: str | None) -> None:
    """Such as of the first replica's rows only, which nothing else tells."""

    def client(rows: int, number: int, replicas: int) -> ClientTrace:
        given = tuple(Value(f"[{place}]", (Array.of(np.zeros(rows)),)) for place in range(number))
        call = Evaluated(1, 0, 0.0, "measured", given, trains=trains)
        return msgspec.structs.replace(_client(replicas=replicas), evaluated=(call,))

    _, found = conditions_of(_case(client(shapes[0], places, 2), reference=client(shapes[1], 1, 1)), [])
    assert [each.text for each in found] == ([f"that measured at [0] {told}"] if told else [])


@pytest.mark.parametrize(("cut", "told"), [(None, True), (2, False), (3, True)])
def test_another_number_of_evaluations_is_a_condition(cut: int | None, told: bool) -> None:
    """Not of those after the last step of a script that is ended there."""
    run = msgspec.structs.replace(_client(0.5, replicas=2), counters=Counters(cut=cut), seen=(Seen(1, 0.0),))
    _, found = conditions_of(_case(run, reference=_client(0.5, _RIGHT)), [])
    text = "that measured is called once where one device calls it 2 times"
    assert [each.text for each in found] == ([text] if told else [])


@pytest.mark.parametrize(("reduced", "equal", "told"), [(None, False, True), (1.0, False, False), (None, True, False)])
def test_numbers_of_each_task_are_a_condition(reduced: float | None, equal: bool, told: bool) -> None:
    """Unless something is reduced after the evaluation that gave them."""
    whole = Evaluated(1, 0, reduced or 0.0, "reduced", (Value("result", (Array.of(0.5),)),), reduces=True)
    workers = [_client(0.5 if equal else number, task=f"worker:{k}") for k, number in enumerate((0.1, 0.2))]
    run = [msgspec.structs.replace(each, evaluated=(*each.evaluated, whole)) for each in workers]
    _, found = conditions_of(_case(*run, reference=_client(0.5)), [])
    assert [each.text for each in found] == (["that measured gives each task numbers of its own"] if told else [])


@pytest.mark.parametrize("reported", [True, False])
def test_what_is_reported_as_loss_is_told_as_that(reported: bool) -> None:
    """The same two numbers need not be told twice."""
    numbers = np.float32(0.3), np.float32(0.4)
    losses = [number if reported else np.float32(0.9) for number in numbers]
    steps = tuple(step(number, loss=loss) for number, loss in enumerate(losses, start=1))
    run = msgspec.structs.replace(_client(*map(float, numbers), replicas=2, trains=True), steps=steps)
    given = tuple(
        msgspec.structs.replace(each, values=(Value("result", (Array.of(number),)),))
        for each, number in zip(run.evaluated, numbers, strict=True)
    )
    run = msgspec.structs.replace(run, evaluated=given)
    _, found = conditions_of(_case(run, reference=_client(0.5, _RIGHT, trains=True)), [])
    assert [each.code for each in found] == ([] if reported else ["given_back"])


@pytest.mark.parametrize(("cut", "by_hand"), [(2, (True, True)), (2, (True, False)), (None, (True, True))])
def test_a_script_that_is_ended_before_it_trains_has_a_condition(cut: int | None, by_hand: tuple[bool, ...]) -> None:
    """What it does after its first steps is not judged: it may have set only what it would have trained."""
    seen = tuple(Seen(number, 0.0, by_hand=each) for number, each in enumerate(by_hand, start=1))
    run = msgspec.structs.replace(_client(replicas=2), seen=seen, counters=Counters(cut=cut))
    _, found = conditions_of(_case(run, reference=_client()), [])
    assert [each.code for each in found] == (["ended_by_hand"] if cut and all(by_hand) else [])


def test_parts_of_workers_are_no_numbers_for_all() -> None:
    """Each has its own of the second one; of the first one both have been given the same, and it is wrong."""
    workers = [_client(0.6, number, task=f"worker:{k}") for k, number in enumerate((0.1, 0.2))]
    found = LAW.judge(_case(*workers, reference=_client(0.5, _RIGHT)))
    assert (found.status, found.compared) == ("broken", 1)


def test_what_one_replica_cannot_compute_is_not_judged() -> None:
    """With the reason; nor is it asked of a reference that follows nothing, or that has no evaluations."""
    case = _case(_client(0.1), reference=_client(_RIGHT, apart="each replica has its own moving_mean"))
    found = LAW.judge(case)
    assert (found.status, "its own moving_mean" in found.reason) == ("not_judged", True)
    assert LAW.concerns(case)
    assert not LAW.concerns(replace(case, follows=False))
    wholes = replace(_case(_client(1.0, replicas=2), reference=_client(0.5)), wholes=True)
    assert LAW.judge(wholes).status == "not_judged"
    assert conditions_of(wholes, [])[1] == ()
    assert not LAW.concerns(_case(_client(0.1), reference=_client()))


@pytest.mark.full
@pytest.mark.parametrize(
    ("given", "read", "told"),
    [
        ('strategy.reduce("MEAN", losses, axis=None)', "train(batch)", "gives back is 1/2 of what one device gets"),
        ("strategy.experimental_local_results(losses)[0]", "train(batch)", "where one device gets"),
        ("losses", 'strategy.reduce("SUM", train(batch), axis=None)', ""),
        (
            "losses",
            'strategy.reduce("MEAN", train(batch), axis=None)',
            "at train.py:26 gives back is 1/2",
        ),
        ("losses", "train(batch)", None),
    ],
)
def test_a_loss_that_is_printed_otherwise_is_a_condition(
    given: str, read: str, told: str | None, verified: Verified
) -> None:
    """It may be the mean of shares, or that of one replica; what each replica gives is said not to be seen."""
    whole = 'strategy.reduce("SUM", strategy.run(step, args=batch), axis=None)'
    source = LOOP.replace(f"return {whole}", f"losses = strategy.run(step, args=batch)\n    return {given}")
    source = source.replace("loss = train(batch)", f"loss = {read}").replace("float(loss)", "loss")
    verdict = verified(source, "mirrored-2", "1", explain=False)
    assert verdict.outcome == "consistent", str(verdict)
    assert [each.code for each in verdict.conditions] == (["given_back"] if told else [])
    assert not told or told in verdict.conditions[0].text
    assert any("numbers that a step gives back" in note for note in verdict.notes) is (told is None)


_FIT = """
import numpy as np
import tensorflow as tf
IMPORT

x = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
y = np.abs(x).sum(axis=1, keepdims=True)
strategy = tf.distribute.MirroredStrategy()

class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, x):
        return self.dense(x)

    def test_step(self, data):
        x, y = data
        return {"error": MEASURED(tf.abs(y - self(x)))}

with strategy.scope():
    model = Model()
    model.compile(optimizer="sgd", loss="mse")
CALL
"""
_CALLS = {
    "fit": "model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False, validation_data=(x, y))",
    "evaluate": "model.fit(x, y, batch_size=8, shuffle=False)\nmodel.evaluate(x, y, batch_size=8)",
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("keras", "measured", "call", "told"),
    [
        ("import keras", "tf.reduce_max", "fit", "where one device gets"),
        ("import keras", "tf.reduce_mean", "evaluate", None),  # Keras 3 averages what replicas give
        ("import tf_keras as keras", "tf.reduce_mean", "evaluate", "is 2 times what one device gets"),  # it adds it up
        ("import tf_keras as keras", "0.125 * tf.reduce_sum", "fit", None),
    ],
)
def test_what_keras_logs_of_an_evaluation_is_a_condition(
    keras: str, measured: str, call: str, told: str | None, verified: Verified
) -> None:
    """A validation is called by `fit`, and a step of its own gives what no metric keeps."""
    source = _FIT.replace("IMPORT", keras).replace("MEASURED", measured).replace("CALL", _CALLS[call])
    if "0.125" in measured:
        source = source.replace("validation_data=(x, y)", "validation_data=(x, y), validation_batch_size=8")
    verdict = verified(source, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == "consistent", str(verdict)
    assert [each.code for each in verdict.conditions] == (["given_back"] if told else [])
    for each in verdict.conditions:
        assert each.text.startswith("that what model.evaluate at ['error'] gives back is"), each.text
        assert (told or "") in each.text


@pytest.mark.parametrize(("numbers", "given"), [((0.5, _RIGHT), None), ((0.5, 0.7), "0.7 where one device gets 0.75")])
def test_each_evaluation_that_keras_logs_counts(numbers: tuple[float, float], given: str | None) -> None:
    """Each begins anew, so that a later one is no more than the first one is."""

    def logged(client: ClientTrace) -> ClientTrace:
        calls = tuple(msgspec.structs.replace(each, name=EVALUATE, trains=True) for each in client.evaluated)
        return msgspec.structs.replace(client, evaluated=calls)

    case = _case(logged(_client(*numbers, replicas=2)), reference=logged(_client(0.5, _RIGHT)))
    _, found = conditions_of(case, [])
    assert [each.text for each in found] == ([f"that what {EVALUATE} gives back is {given}"] if given else [])
    wrong = Finding("variables_match_reference", "off", step=2)
    _, found = conditions_of(case, [Judgement(wrong.law, "broken", findings=(wrong,))])
    assert found == (), "after a wrong step nothing is what it should be"


@pytest.mark.parametrize(("rows", "numbers", "told"), [(4, (1, 2), "[4]"), (8, (2, 4), "2 times"), (8, (1, 3), None)])
def test_whole_numbers_of_evaluations_are_no_finding(rows: int, numbers: tuple[int, int], told: str | None) -> None:
    """A rounding may decide about an answer; not about how many there are, or about their number times the replicas."""

    def client(rows: int, *numbers: int, replicas: int) -> ClientTrace:
        header = _client(replicas=replicas).header
        arrays = [np.resize(np.array([number, 0]), rows) for number in numbers]
        calls = (Evaluated(1, k, 0.0, "hits", (Value("result", (Array.of(each),)),)) for k, each in enumerate(arrays))
        return ClientTrace(header, evaluated=tuple(calls))

    case = _case(client(rows, *numbers, replicas=2), reference=client(8, 1, 2, replicas=1))
    assert LAW.judge(case).status == "not_judged"
    _, found = conditions_of(case, [])
    assert [told is not None and told in each.text for each in found] == ([True] if told else [])
