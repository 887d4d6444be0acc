"""Programs that report nothing, judged by what is seen of them; and that nothing is seen where it would disturb."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import verify
from harness.evidence.trace import Seen
from harness.recording.witness import Witness, all_seams
from harness.recording.witness.protocol import WitnessState
from harness.subject.strategies import strategy_case
from simulator import Cluster
from tests._once import once
from tests.harness._caught import fails_between
from tests.harness._held_back import held_back
from tests.harness._shapeless import shapeless
from tests.harness._sharing import sharing
from tests.harness._slices import slices


def _data() -> tuple[Any, Any]:
    import numpy as np

    features = np.random.default_rng(0).normal(size=(48, 4)).astype(np.float32)
    return features, features.sum(axis=1, keepdims=True)


def _model(keras: Any) -> Any:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1)])


def _loop(strategy: Any, record: Any, *, mistake: str = "", flavour: str = "keras") -> None:
    """The custom loop of TensorFlow's tutorial; `mean` and `own` are mistakes that one replica hides."""
    import importlib

    import tensorflow as tf

    keras = importlib.import_module(flavour)
    distributed = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(_data()).batch(12))
    with strategy.scope():
        model = _model(keras)
        optimizer = keras.optimizers.SGD(0.1, momentum=0.5)
        optimizer.build(model.trainable_variables)

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((model(x, training=True) - y) ** 2, axis=1)
            loss = tf.reduce_mean(per_example) if mistake == "mean" else tf.reduce_sum(per_example) / 12
        gradients = tape.gradient(loss, model.trainable_variables)
        if mistake == "own" and strategy.num_replicas_in_sync > 1:
            for gradient, variable in zip(gradients, model.trainable_variables, strict=True):
                variable.value.assign_sub(0.1 * gradient)
        else:
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(batch: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica_step, args=batch), axis=None)

    for batch in distributed:
        step(batch)


def _fit(strategy: Any, record: Any, *, flavour: str, whole: bool = False) -> None:
    """`fit` with validation; with `whole` each replica gets a global batch of its own."""
    import importlib

    import tensorflow as tf

    keras = importlib.import_module(flavour)
    x, y = _data()
    with strategy.scope():
        model = _model(keras)
        model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    size = 12 * strategy.num_replicas_in_sync if whole else 12
    data = tf.data.Dataset.from_tensor_slices((x, y))
    model.fit(data.batch(size), epochs=2, verbose=0, validation_data=data.take(24).batch(12))


_MISTAKES = [
    pytest.param("mean", "mirrored-2", "variables_match_reference", "loss_times_replicas", marks=pytest.mark.full),
    pytest.param("own", "mirrored-2", "replicas_agree", "gradients_not_reduced", marks=pytest.mark.full),
    pytest.param("mean", "multi_worker-2", "variables_match_reference", "loss_times_replicas", marks=pytest.mark.full),
    pytest.param("own", "multi_worker-2", "replicas_agree", "gradients_not_reduced", marks=pytest.mark.full),
]


@pytest.mark.parametrize(("mistake", "strategy", "law", "rule"), _MISTAKES)
def test_a_wrong_loop_that_reports_nothing_is_named(mistake: str, strategy: str, law: str, rule: str) -> None:
    """Its variables are wrong, and what each replica contributed proves why."""
    verdict = verify(sharing(functools.partial(_loop, mistake=mistake), _loop), strategy, explain=False)
    assert verdict.outcome == "inconsistent"
    assert {each.law for each in verdict.judgements if each.status == "broken"} >= {law}, str(verdict)
    assert verdict.explanation is not None, str(verdict)
    assert verdict.explanation.rule == rule


_RIGHT: list[Any] = [
    (_loop, "mirrored-2"),
    *(
        pytest.param(program, strategy, marks=pytest.mark.full)
        for program, strategy in (
            # In the quick profile docs/writing-programs.md has a `fit` that reports nothing.
            (functools.partial(_fit, flavour="keras"), "mirrored-2"),
            (functools.partial(_loop, flavour="tf_keras"), "one_device"),
            (functools.partial(_loop, flavour="tf_keras"), "mirrored-2"),
            (functools.partial(_fit, flavour="tf_keras"), "mirrored-2"),
            (functools.partial(_fit, flavour="tf_keras"), "multi_worker-2"),
            (_loop, "multi_worker-2"),
        )
    ),
]


@pytest.mark.parametrize(("program", "strategy"), _RIGHT)
def test_a_right_program_that_reports_nothing_is_consistent(program: Callable[..., None], strategy: str) -> None:
    """Its variables, slots and examples are held against the reference's, and of `fit` the loss of each epoch."""
    verdict = verify(program, strategy)
    assert verdict.outcome == "consistent", str(verdict)
    held = {each.law: each.compared for each in verdict.judgements if each.status == "held"}
    assert held["variables_match_reference"] >= 4 * 8
    assert held["examples_match_reference"] >= 4
    assert ("loss_matches_reference" in held) == (program is not _loop and getattr(program, "func", None) is _fit)
    assert "never calls record.step" in str(verdict)


@pytest.mark.full
def test_what_each_replica_gets_is_known_without_ids() -> None:
    """A `fit` of which each replica gets a global batch takes fewer steps with more examples each."""
    verdict = verify(functools.partial(_fit, flavour="keras", whole=True), "mirrored-2", explain=False)
    assert verdict.outcome == "inconsistent"
    first = verdict.first_divergence
    assert first is not None
    assert (first.law, first.step) == ("rows_whole", 1)
    assert "given 24 examples, and one device is given 12" in first.text


def _in_a_task() -> dict[str, Any]:
    """What needs TensorFlow, in one process with two replicas."""
    strategy = strategy_case("mirrored-2").build()
    return {name: check(strategy) for name, check in _CHECKS.items()}


def _seeing(strategy: Any, program: Callable[[], Any], reported: tuple[str, ...] = ()) -> tuple[Any, list[Seen], Any]:
    """What a program returns, the steps that were seen, and what was not."""
    found: list[Seen] = []
    witness = Witness(strategy, strategy.num_replicas_in_sync, all_seams())
    witness.reported(reported, step=False)
    with witness.active(found.append):
        result = program()
    return result, found, witness.unseen


def _random_numbers(strategy: Any) -> bool:
    """Dropout, and random ops without a seed of their own, in functions that train: the same with the seams."""
    import numpy as np
    import tensorflow as tf

    def program() -> Any:
        tf.random.set_seed(5)
        with strategy.scope():
            w = tf.Variable(tf.random.normal([3, 2]), aggregation=tf.VariableAggregation.SUM)

        def replica(x: Any) -> Any:
            with tf.GradientTape() as tape:
                y = tf.nn.dropout((x + tf.random.normal([4, 3])) @ w, 0.5)
                loss = tf.reduce_sum(y**2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss + tf.random.uniform([])

        step = tf.function(lambda x: strategy.run(replica, args=(x,)))
        drawn = [strategy.experimental_local_results(step(tf.ones([4, 3]))) for _ in range(3)]
        return [float(each) for pair in drawn for each in pair], w.values[1].numpy().tolist()

    alone = program()
    watched, seen, _ = _seeing(strategy, program)
    return len(seen) == 3 and bool(seen[0].gradients) and np.array_equal(alone[0], watched[0]) and alone == watched


def _evaluation_is_no_step(strategy: Any) -> list[int]:
    """Training, evaluation and training again: steps, and how many examples of each."""
    import tensorflow as tf

    def program() -> None:
        with strategy.scope():
            w = tf.Variable([[1.0], [2.0]], aggregation=tf.VariableAggregation.SUM)

        def replica(x: Any, train: bool) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x @ w)
            if train:
                w.assign_sub(tape.gradient(loss, w))
            return loss

        train = tf.function(lambda x: strategy.run(replica, args=(x, True)))
        test = tf.function(lambda x: strategy.run(replica, args=(x, False)))
        for rows in (3, 5):
            train(tf.ones([rows, 2]))
            test(tf.ones([7, 2]))

    return [len((seen.examples or ((),))[0]) for seen in _seeing(strategy, program)[1]]


def _only_optimizers(strategy: Any) -> list[int]:
    """An optimizer that is given gradients made by hand takes a step; a metric that is updated and reset takes none."""
    import keras
    import tensorflow as tf
    import tf_keras

    def program() -> None:
        with strategy.scope():
            w = tf.Variable([1.0, 2.0], name="w")
            optimizers = [keras.optimizers.SGD(0.5), tf_keras.optimizers.SGD(0.5)]
            metrics = [keras.metrics.Mean(), tf_keras.metrics.Mean()]
            for optimizer in optimizers:
                optimizer.build([w])

        def apply(number: int, gradient: Any) -> None:
            optimizers[number].apply_gradients([(tf.identity(gradient), w)])

        def measure(number: int, value: Any) -> None:
            metrics[number].update_state(value)

        for number in (0, 1):
            tf.function(lambda x, number=number: strategy.run(apply, args=(number, x)))(tf.ones([2]))
            tf.function(lambda x, number=number: strategy.run(measure, args=(number, x)))(tf.ones([2]))
            tf.function(metrics[number].reset_state)()

    return [len(seen.variables or ()) for seen in _seeing(strategy, program)[1]]


def _places_without_python(strategy: Any) -> tuple[int, str]:
    """A jit-compiled gradient and a jacobian: both are steps, and what cannot be had of them is said."""
    import tensorflow as tf

    def program() -> None:
        w = tf.Variable([1.0, 2.0])

        @tf.function(jit_compile=True)
        def compiled(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x * w)
            return tape.gradient(loss, w)

        @tf.function
        def rows(x: Any) -> Any:
            with tf.GradientTape() as tape:
                y = x * w
            return tape.jacobian(y, w)

        for step in (compiled, rows):
            strategy.run(step, args=(tf.ones([2]),))

    _, seen, unseen = _seeing(strategy, program)
    return sum(bool(each.variables) for each in seen), "; ".join(unseen)


def _kinds_of_variables(strategy: Any) -> list[str]:
    """Of a step with all kinds of variables, the names of those that are looked at."""
    import keras
    import tensorflow as tf

    def program() -> None:
        with strategy.scope():
            trained = tf.Variable(1.0, name="trained", aggregation=tf.VariableAggregation.SUM)
            tf.Variable(1.0, name="own_of_the_program")
            local = tf.Variable(1.0, name="on_read", synchronization=tf.VariableSynchronization.ON_READ)
            counter = tf.Variable(0, name="counter", aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
            metric = keras.metrics.Mean()
            optimizer = keras.optimizers.SGD(0.1, momentum=0.5, name="sgd")
            optimizer.build([trained])

        def replica() -> None:
            with tf.GradientTape() as tape:
                loss = trained * 2.0 + local
            gradients = tape.gradient(loss, [trained, local])
            counter.assign_add(1)
            optimizer.apply([gradients[0]], [trained])
            metric.update_state(loss)

        strategy.run(replica)

    (seen,) = _seeing(strategy, program)[1]
    return [variable.name for variable in seen.variables or ()]


def _what_is_reported(strategy: Any) -> bool:
    """Variables that the program reports are not read a second time."""
    import tensorflow as tf

    def program() -> None:
        w = tf.Variable(1.0)

        @tf.function
        def step() -> None:
            with tf.GradientTape() as tape:
                loss = w * 2.0
            w.assign_sub(tape.gradient(loss, w))

        step()

    looked, reported = (_seeing(strategy, program, given)[1][0].variables for given in ((), ("variables",)))
    return bool(looked) and reported is None


def _loads(strategy: Any) -> tuple[bool, list[int]]:
    """Whether a training function that was saved and loaded gives what it gives unseen; examples of each seen step."""
    import tempfile

    import tensorflow as tf

    def program() -> Any:
        with strategy.scope():
            module = tf.Module()
            module.w = tf.Variable([[1.0], [2.0]], aggregation=tf.VariableAggregation.SUM)

        def replica(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x @ module.w)
            module.w.assign_sub(0.1 * tape.gradient(loss, module.w))
            return loss

        @tf.function(input_signature=[tf.TensorSpec([None, 2])])
        def train(x: Any) -> Any:
            return strategy.reduce("SUM", strategy.run(replica, args=(x,)), axis=None)

        module.train = train
        losses = [float(train(tf.ones([rows, 2]))) for rows in (3, 5)]
        with tempfile.TemporaryDirectory() as place:
            tf.saved_model.save(module, place)
            loaded = tf.saved_model.load(place)
            return [*losses, float(loaded.train(tf.ones([2, 2])))]

    alone = program()
    losses, seen, _ = _seeing(strategy, program)
    return losses == alone, [len((each.examples or ((),))[0]) for each in seen]


def _many_in_a_call(strategy: Any) -> list[int]:
    """A function that takes four steps in a loop, called twice: how many examples each call had."""
    import tensorflow as tf

    def program() -> None:
        with strategy.scope():
            w = tf.Variable([[1.0], [2.0]], aggregation=tf.VariableAggregation.SUM)

        def replica(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x @ w)
            w.assign_sub(0.0 * tape.gradient(loss, w))
            return loss

        @tf.function
        def train(x: Any) -> None:
            for _ in tf.range(4):
                strategy.run(replica, args=(x,))

        for _ in range(2):
            train(tf.ones([3, 2]))

    return [len((each.examples or ((),))[0]) for each in _seeing(strategy, program)[1]]


def _deterministic(strategy: Any) -> list[int]:
    """A program that wants deterministic operations: how many examples each of its steps had."""
    import tensorflow as tf
    from tensorflow.python.framework import config

    tf.config.experimental.enable_op_determinism()
    try:
        return _many_in_a_call(strategy)
    finally:
        config.disable_op_determinism()


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "sequences": shapeless,
    "slices": slices,
    "random": _random_numbers,
    "evaluation": _evaluation_is_no_step,
    "optimizers": _only_optimizers,
    "no_python": _places_without_python,
    "variables": _kinds_of_variables,
    "reported": _what_is_reported,
    "loads": _loads,
    "fails": fails_between,
    "many": _many_in_a_call,
    "deterministic": _deterministic,
    "held": held_back,
}


@pytest.fixture(scope="module")
def in_a_task(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the checks found, all in one process."""

    def checked() -> dict[str, Any]:
        with Cluster(strategy_case("mirrored-2").topology, timeout=60) as cluster:
            return cluster.run(_in_a_task)["local:0"].value  # type: ignore[no-any-return]

    return once(tmp_path_factory, "witness", checked)


def test_seams_change_no_random_number(in_a_task: dict[str, Any]) -> None:
    """Their ops have no seeds, and those behind them keep theirs."""
    assert in_a_task["random"]


def test_only_what_trains_is_a_step(in_a_task: dict[str, Any]) -> None:
    """An evaluation is none, and the examples that it reads are nobody's."""
    assert in_a_task["evaluation"] == [3, 5]


def test_gradients_made_by_hand_make_a_step(in_a_task: dict[str, Any]) -> None:
    """There are two, each with the variable and the learning rates; what metrics do to their own is no step."""
    assert len(in_a_task["optimizers"]) == 2
    assert min(in_a_task["optimizers"]) >= 3


def test_where_no_python_runs_it_is_said(in_a_task: dict[str, Any]) -> None:
    """Both calls are steps, and their variables are seen."""
    steps, unseen = in_a_task["no_python"]
    assert steps == 2
    assert "jit_compile=True" in unseen
    assert "jacobian" in unseen


def test_only_what_must_agree_is_looked_at(in_a_task: dict[str, Any]) -> None:
    """No metric, nothing that is reduced when it is read; but what counts, of whomever."""
    slots = ["sgd/iteration", "sgd/learning_rate", "sgd/trained_0_momentum"]
    assert in_a_task["variables"] == ["trained", "counter", *slots]


def test_what_is_reported_is_not_looked_at(in_a_task: dict[str, Any]) -> None:
    """It wins anyhow."""
    assert in_a_task["reported"]


def test_a_gradient_has_the_shape_of_its_variable(in_a_task: dict[str, Any]) -> None:
    """Also where the graph does not know it; else nothing would be known of how large it is."""
    seen, unseen = in_a_task["sequences"]
    assert seen, unseen
    assert "too large" not in unseen


def test_a_reduction_is_seen_beside_slices_of_unknown_size(in_a_task: dict[str, Any]) -> None:
    """And what a line tells TensorFlow of the global batch, without a look at the losses."""
    reduced, ((line, batch, step),) = in_a_task["slices"]
    assert () in reduced
    assert line.endswith("# told")
    assert (batch, step) == (3, 1)


def test_a_step_that_is_saved_and_loaded_runs(in_a_task: dict[str, Any]) -> None:
    """As alone, though what it would hand over goes nowhere: nobody knows that it is a step."""
    assert in_a_task["loads"] == (True, [3, 5])


def test_what_a_failed_call_read_belongs_to_no_step(in_a_task: dict[str, Any]) -> None:
    """Its four examples are forgotten, and not those of the next call; that it failed is said, and no end of data."""
    examples, said = in_a_task["fails"]
    assert examples == [3, 5, 7], said
    assert len(said) == 1
    assert said[0].startswith("a step raised InvalidArgumentError, after which the program went on")


def test_all_examples_of_a_call_are_seen(in_a_task: dict[str, Any]) -> None:
    """However often the graph hands them over; a deterministic program is not told the time, and does it otherwise."""
    assert in_a_task["many"] == in_a_task["deterministic"] == [12, 12]


def test_what_is_written_together_belongs_to_its_own_step(in_a_task: dict[str, Any]) -> None:
    """And not to the evaluations between; of a program that fails all is there but the step that nothing followed."""
    ended, failed = in_a_task["held"]
    assert ended == [2 + number % 5 for number in range(41)]
    assert failed == ended[:-1]


def test_numbers_of_eight_steps_in_each_doubling_are_kept() -> None:
    """And of all of the first 16."""
    gathered = WitnessState(None, 1, pytest.fail)
    kept = []
    for number in range(1, 257):
        gathered.number = number
        kept += [number] if gathered.in_full else []
    assert kept[:16] == list(range(1, 17))
    assert [sum(low <= each < 2 * low for each in kept) for low in (16, 32, 64, 128)] == [8, 8, 8, 8]


def test_a_new_file_is_a_new_seam(tmp_path: Path) -> None:
    """Nobody names the files of the folder; what marks a step comes last, around all others."""
    names = [getattr(seam, "__name__", "").rpartition(".")[2] for seam in all_seams()]
    assert names[-2:] == ["calls", "closures"]
    assert {"tapes", "variables", "logs", "examples", "reductions", "optimizers"} < set(names)
