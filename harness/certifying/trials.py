"""One training under every strategy that the GPUs allow: its speed, and whether it can be repeated bit for bit."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median
from typing import Any

from harness.certifying.certificate import Trial
from harness.evidence.reproducibility import first_difference
from harness.evidence.trace import RunTrace
from harness.running.observe import observe
from simulator import LockstepError

_TRACED_STEPS = 2
_ROUNDS = 2
MEASURED = (
    f"median of the seconds between steps, without the first {_TRACED_STEPS} of each run, which are traced; {_ROUNDS} "
    "runs of each training, all trainings in turns; every step records all variables, which is part of it"
)
"""How the seconds of a step were taken."""

_Train = Callable[[Any, Any], None]


def strategies_for(gpus: int) -> tuple[str, ...]:
    """One of each kind that runs in step, with as many replicas as there are GPUs, two at least; NCCL needs two."""
    replicas = max(2, min(gpus, 8))
    plain = ("one_device", f"mirrored-{replicas}", "central_storage-2", f"multi_worker-{min(replicas, 4)}")
    nccl = (f"mirrored-{replicas}:nccl", f"multi_worker-{min(replicas, 4)}:nccl")
    return (*plain, *(nccl if gpus >= replicas else ()))


def planned(gpus: int) -> tuple[tuple[str, _Train, str], ...]:
    """What is tried: what the training is about, its function, and a strategy.

    Plain variables under all strategies, a model of each Keras that is installed under one, and parameter servers, of
    which each worker has a GPU.
    """
    replicas = max(2, min(gpus, 8))
    found: list[tuple[str, _Train, str]] = [("variables", _train_two_layers, name) for name in strategies_for(gpus)]
    found.append(("Keras 3", _train_keras, f"mirrored-{replicas}"))
    if importlib.util.find_spec("tf_keras") is not None:
        found.append(("tf_keras", _train_tf_keras, f"mirrored-{replicas}"))
    return (*found, ("coordinator", _train_served, f"parameter_server-{min(replicas, 2)}w1p"))


def trials(hardware: str, gpus: int, timeout: float) -> Iterator[Trial]:
    """Each of `planned`; all of them once and then once more, so that what slows a machine for a while meets all."""
    plan = planned(gpus)
    runs: list[list[RunTrace]] = [[] for _ in plan]
    failed: dict[int, str] = {}
    for _ in range(_ROUNDS):
        for number, (_, function, strategy) in enumerate(plan):
            if number in failed:
                continue
            try:
                runs[number].append(observe(function, strategy, hardware=hardware, timeout=timeout))
            except LockstepError as error:
                failed[number] = str(error).partition("\n")[0]
    for number, (about, _, strategy) in enumerate(plan):
        if number in failed:
            yield Trial(strategy, None, bit_equal=False, difference=failed[number], training=about)
        else:
            yield _tried(about, strategy, runs[number])


def _tried(about: str, strategy: str, runs: list[RunTrace]) -> Trial:
    parts = zip(*(run.clients for run in runs), strict=True)
    found = [difference.text for one, other in parts if (difference := first_difference(one, other)) is not None]
    seconds, steps = _seconds_per_step(runs)
    return Trial(strategy, seconds, not found, "".join(found[:1]), _peaks(runs[0]), about, steps)


def _seconds_per_step(runs: list[RunTrace]) -> tuple[float, int]:
    """Of the first client, between the records of its steps; and how many those are."""
    times = [[step.at for step in run.clients[0].steps][_TRACED_STEPS:] for run in runs]
    taken = [later - earlier for each in times for earlier, later in pairwise(each)]
    return median(taken), len(taken)


def _peaks(run: RunTrace) -> dict[str, int]:
    placed = {client.header.task: client.counters.placement for client in run.clients}
    return {
        f"{task} {device}": size
        for task, placement in placed.items()
        if placement is not None
        for device, size in placement.peak_bytes.items()
    }


def _train(strategy: Any, record: Any, *, flavour: str) -> None:
    """A custom loop; every step records its loss and all variables."""
    import tensorflow as tf

    keras = importlib.import_module(flavour)
    tf.config.experimental.enable_op_determinism()
    x, y = _data()
    keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = [keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(_OUTPUTS)]
        model = keras.Sequential([keras.Input((x.shape[1],)), *layers])
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(x, training=True) - y) ** 2) / (_BATCH * _OUTPUTS)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    @tf.function
    def train_step(x: Any, y: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)

    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(_BATCH)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    for batch in strategy.experimental_distribute_dataset(dataset.with_options(options)):
        record.step(loss=train_step(*batch), variables=model.trainable_variables)


_train_keras = functools.partial(_train, flavour="keras")
_train_tf_keras = functools.partial(_train, flavour="tf_keras")


def _train_served(strategy: Any, record: Any) -> None:
    """Steps that a coordinator schedules one after the other, so that they can be repeated; variables on servers."""
    import tensorflow as tf

    tf.config.experimental.enable_op_determinism()
    x, y = _data()
    with strategy.scope():
        w = tf.Variable(tf.ones((x.shape[1], _OUTPUTS)) / 10, name="w")

    @tf.function
    def update(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.matmul(x, w) - y) ** 2) / (_BATCH * _OUTPUTS)
        w.assign_sub(0.1 * tape.gradient(loss, w))

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    for step in range(_STEPS):
        rows = slice(step * _BATCH, (step + 1) * _BATCH)
        coordinator.schedule(update, args=(tf.constant(x[rows]), tf.constant(y[rows])))
        coordinator.join()
        record.step(variables=[w])


# The training that a certificate measures: two layers on random data, whose steps are one `tf.function`.


_STEPS = 14
_BATCH, _OUTPUTS = 64, 10
_INPUTS, _HIDDEN = 64, 128


def _data() -> tuple[Any, Any]:
    """Features and targets of all steps: float32, `_STEPS * _BATCH` rows of 64 and of `_OUTPUTS` numbers."""
    import numpy as np

    draw = np.random.default_rng(1)
    x = draw.standard_normal((_BATCH * _STEPS, _INPUTS)).astype(np.float32)
    return x, draw.standard_normal((_BATCH * _STEPS, _OUTPUTS)).astype(np.float32)


def _train_two_layers(strategy: Any, record: Any) -> None:
    """Train; every step records its loss and all variables. The same numbers whenever it runs on one kind of device."""
    import numpy as np
    import tensorflow as tf

    # Without it a GPU adds up in whatever order its threads come, and two equal runs differ.
    tf.config.experimental.enable_op_determinism()
    draw = np.random.default_rng(2)
    x, y = _data()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(_BATCH)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    with strategy.scope():
        shapes = {"w1": (_INPUTS, _HIDDEN), "w2": (_HIDDEN, _OUTPUTS)}
        start = {name: draw.standard_normal(shape).astype(np.float32) / 10 for name, shape in shapes.items()}
        weights = [
            tf.Variable(value, name=name, aggregation=tf.VariableAggregation.SUM) for name, value in start.items()
        ]

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            error = tf.matmul(tf.nn.tanh(tf.matmul(x, weights[0])), weights[1]) - y
            loss = tf.reduce_sum(error**2) / (_BATCH * _OUTPUTS)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    @tf.function
    def train_step(x: Any, y: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)

    for batch in strategy.experimental_distribute_dataset(dataset.with_options(options)):
        record.step(loss=train_step(*batch), variables=weights)
