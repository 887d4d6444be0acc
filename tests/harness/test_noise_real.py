"""Right programs whose rounding only the seams of the noise reach are consistent; an error of 1 % in them is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import verify
from harness.evidence.trace import merge, read_client
from harness.judging.laws import Case, judge_all
from harness.judging.tolerance import DerivedTolerance
from harness.running.reference_request import FIRST_SEEDS
from simulator import Cluster, Topology

_WRONG = 1.01


def _moments(strategy: Any, record: Any) -> None:
    """Everyday statistics of data, reduced over replicas; each also with a part of it 1 % wrong with two replicas."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(5)
    features = random.normal(3.0, 1.0, size=(64, 4)).astype("float32")
    targets = (features @ np.array([[1], [2], [-1], [0.5]], np.float32) + 0.1 * random.normal(size=(64, 1))).astype(
        "float32"
    )
    dataset = strategy.experimental_distribute_dataset(
        tf.data.Dataset.from_tensor_slices((features, targets)).batch(16)
    )

    @tf.function
    def sums(batch: Any) -> Any:
        def of_replica(x: Any, y: Any) -> Any:
            far = x + 30.0
            return (
                tf.reduce_sum(x),
                tf.reduce_sum(far, 0),
                tf.reduce_sum(far**2, 0),
                tf.matmul(x, x, True),
                tf.matmul(x, y, True),
            )

        parts = strategy.run(of_replica, args=batch)
        return [strategy.reduce("SUM", part, axis=None) for part in parts]

    error = _WRONG if strategy.num_replicas_in_sync > 1 else 1.0
    for batch in dataset:
        total, first, second, gram, moments = sums(batch)
        metrics: dict[str, Any] = {}
        for name, wrong in (("", 1.0), (" wrong", error)):
            metrics[f"mean{name}"] = float(total) / (12 * wrong)
            metrics[f"variance{name}"] = second / (16 * wrong) - (first / 16) ** 2
            metrics[f"ridge{name}"] = tf.linalg.solve(gram + tf.eye(4) * wrong, moments * wrong)
            in_numpy = np.linalg.solve(gram.numpy() + np.eye(4), np.asarray(moments, np.float64) * wrong)
            metrics[f"ridge in NumPy{name}"] = in_numpy
        record.step(metrics=metrics)


def _record(folder: str, which: dict[str, tuple[str, ...] | None]) -> None:
    """The reference, its reruns with some of the seams, and the run with two replicas, all in one process."""
    import contextlib

    import tensorflow as tf

    from harness.evidence.trace import Header
    from harness.recording.noise import SEAMS, Noise
    from harness.recording.recorder import Recorder

    def one(name: str, strategy: Any, noise: Any) -> None:
        replicas = strategy.num_replicas_in_sync
        header = Header("local:0", 0, name, replicas, replicas, 1, 0)
        recorder = Recorder(strategy, header, Path(folder) / name, Path(folder), noise)
        with contextlib.nullcontext() if noise is None else noise.active():
            _moments(strategy, recorder)
        recorder.close()

    one("plain", tf.distribute.get_strategy(), None)
    for what, seams in which.items():
        for seed in FIRST_SEEDS:
            chosen = [seam for seam in SEAMS if seams is None or seam.__name__.rpartition(".")[2] in seams]
            one(f"{what}{seed}", tf.distribute.get_strategy(), Noise(seed, chosen))
    one("run", tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice()), None)


def test_statistics_of_data_are_within_the_bound_that_all_seams_give(tmp_path: Path) -> None:
    """With variables and gradients alone, as a control, right ones are accused; with all seams only wrong ones are."""
    with Cluster(Topology(devices="cpu:2"), timeout=300) as cluster:
        cluster.run(_record, str(tmp_path), {"all": None, "few": ("variables", "gradients")})
    traces = {path.name: merge([read_client(path)]) for path in tmp_path.iterdir() if path.is_file()}

    def accused(what: str) -> set[str]:
        tolerance = DerivedTolerance(traces["plain"], [traces[f"{what}{seed}"] for seed in FIRST_SEEDS])
        case = Case(run=traces["run"], reference=traces["plain"], tolerance=tolerance)
        return {str(finding.variable) for judgement in judge_all(case) for finding in judgement.findings}

    wrong = {"mean wrong", "variance wrong", "ridge wrong", "ridge in NumPy wrong"}
    assert accused("all") == wrong
    assert accused("few") - wrong >= {"mean", "variance"}


@pytest.mark.full  # the test before it makes the same runs in one process
def test_statistics_of_data_are_verified() -> None:
    """The same by `verify`."""
    broken = {str(finding.variable) for finding in verify(_moments, "mirrored-2").findings}
    assert broken == {"mean wrong", "variance wrong", "ridge wrong", "ridge in NumPy wrong"}


def _models(flavour: str) -> Any:
    """A program that trains three models: a layer in bfloat16, a cast by hand, a bias before a normalization."""

    def train(strategy: Any, record: Any) -> None:
        import importlib

        import numpy as np
        import tensorflow as tf

        keras: Any = importlib.import_module(flavour)
        layers = keras.layers
        random = np.random.default_rng(5)
        features = random.normal(3.0, 1.0, size=(64, 4)).astype("float32")
        dataset = strategy.experimental_distribute_dataset(
            tf.data.Dataset.from_tensor_slices((features, features[:, :1] ** 2)).batch(16)
        )

        def model(*middle: Any) -> Any:
            last = layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(4))
            return keras.Sequential([keras.Input((4,)), *middle, last])

        with strategy.scope():
            wide = keras.initializers.GlorotUniform(3)
            models = {
                "layer": model(layers.Dense(8, "relu", kernel_initializer=wide, dtype="mixed_bfloat16")),
                "hand": model(layers.Dense(8, "relu", kernel_initializer=wide)),
                "bias": model(layers.Dense(8, kernel_initializer=wide), layers.BatchNormalization(synchronized=True)),
            }
            optimizers = {name: keras.optimizers.Adam(0.01) for name in models}
            for name, optimizer in optimizers.items():
                optimizer.build(models[name].trainable_variables)

        def replica_step(x: Any, y: Any) -> Any:
            losses = {}
            for name, each in models.items():
                with tf.GradientTape() as tape:
                    found = tf.cast(each(x, training=True), tf.float32)
                    if name == "hand":
                        found = tf.cast(tf.cast(found, tf.bfloat16) * 2, tf.float32)
                    losses[name] = tf.nn.compute_average_loss(tf.square(found - y)[:, 0], global_batch_size=16)
                trained = each.trainable_variables
                gradients = tape.gradient(losses[name], trained)
                optimizers[name].apply_gradients(zip(gradients, trained, strict=True))
            return losses

        @tf.function
        def step(batch: Any) -> Any:
            found = strategy.run(replica_step, args=batch)
            return {name: strategy.reduce("SUM", loss, axis=None) for name, loss in found.items()}

        error = _WRONG if strategy.num_replicas_in_sync > 1 else 1.0
        for batch in dataset:
            losses = step(batch)
            wrong = {f"{name} wrong": loss * error for name, loss in losses.items()}
            record.step(metrics=losses | wrong, variables=[each.variables for each in models.values()])

    return train


@pytest.mark.full  # the probes of test_noise show what is seen and what turns its sign
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_layers_in_bfloat16_casts_and_a_gradient_that_is_all_rounding(flavour: str) -> None:
    """None of them is accused; a loss that is 1 % wrong is, in each of the three."""
    verdict = verify(_models(flavour), "mirrored-2")
    assert {str(finding.variable) for finding in verdict.findings} == {"layer wrong", "hand wrong", "bias wrong"}, (
        verdict
    )
