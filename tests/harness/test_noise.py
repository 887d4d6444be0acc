"""The noise of reruns: each seam moves what it is for, in opposite directions for opposite seeds, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simulator import Cluster, Topology
from tests._once import once

Seen = dict[str, dict[str, Any]]
_EPS = 2.0**-23
_ROWS = [[0.3, -1.7, 2.0], [0.1, 0.45, -0.9], [1.3, -0.2, 0.7], [0.6, 1.1, -2.3]]
# Which seam each number below is perturbed by, and by at most how many eps. None: by nothing.
_MOVED = {
    "variable": ("variables", 1),
    "gradient": ("gradients", 4),
    "next": ("datasets", 4),
    "next in a function": ("datasets", 4),
    "loop in a function": ("datasets", 4),
    "loop with break": ("datasets", 4),
    "loop over an iterator": ("datasets", 4),
    "reduce of a dataset": ("datasets", 4),
    "ragged and sparse": ("datasets", 4),
    "tf.constant": ("arrays", 2),
    "argument of a function": ("arrays", 2),
    "operand": ("arrays", 2),
    "reduce_sum": ("sums", 8),
    "gradient of a column": ("sums", 8),
    "mean in bfloat16": ("sums", 8 * 2**16),
    "whole sum in bfloat16": ("sums", 8 * 2**16),
    "sum in a function": ("sums", 8),
    "strategy.reduce": ("reductions", 2),
    "all_reduce": ("reductions", 2),
    "all_reduce of a strategy with one replica": ("reductions", 2),
    "all_reduce of a worker": ("reductions", 2),
    "a gradient that is cast to float16": ("gradient_casts", 2 * 2**13),
    "a quotient of a gradient that is cast to float16": ("gradient_casts", 2 * 2**13),
    "float64 to float32": ("casts", 4),
    "a mean's gradient cast to float16": ("casts", 2 * 2**13),
    "a gradient that leaves float16": ("casts", 4 * 2**13),
}


def _probe() -> dict[str, dict[str, Any]]:
    """Every number of the table and more: without noise, with it, with the opposite one, and without its seam."""
    import contextlib

    from harness.recording.noise import SEAMS, Noise

    # Each with the seams that it is about.
    parts: dict[Callable[..., None], tuple[str, ...]] = {
        _inside: ("variables", "gradients", "gradient_casts", "arrays", "sums", "reductions", "casts"),
        _data: ("datasets",),
        _keras: ("datasets",),
        _out: (),
        _kept: ("sums",),
    }

    def run(noise: Any, *about: Callable[..., None]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        with contextlib.nullcontext() if noise is None else noise.active():
            silent = contextlib.nullcontext if noise is None else noise.silent
            for part in about:
                part(found, silent)
        if noise is not None:
            found["coarsest"] = noise.coarsest
        return found

    noises = {"plain": None, "plus": Noise(1), "minus": Noise(-1)}
    seen = {name: run(noise, *parts) for name, noise in noises.items()}
    for seam in SEAMS:
        name = seam.__name__.rpartition(".")[2]
        others = Noise(1, [each for each in SEAMS if each is not seam])
        if about := [part for part in parts if name in parts[part]]:
            seen[f"without {name}"] = run(others, *about)
    return seen


def _inside(found: dict[str, Any], silent: Callable[[], Any]) -> None:
    """What moves within TensorFlow."""
    import tensorflow as tf
    from tensorflow.python.ops import gen_math_ops

    tf.random.set_seed(3)
    rows, array = tf.constant(_ROWS), np.array(_ROWS, np.float32)
    strategy = tf.distribute.get_strategy()

    def all_reduced() -> Any:
        context = tf.distribute.get_replica_context()
        return context.all_reduce("SUM", rows)

    variable = tf.Variable(_ROWS)
    moved = {
        "variable": variable,
        "gradient": _gradient(rows),
        "tf.constant": tf.constant(array),
        "argument of a function": tf.function(lambda given: given)(array),
        "operand": tf.negative(array),
        "reduce_sum": tf.reduce_sum(tf.abs(rows), 0),
        "gradient of a column": gen_math_ops.mat_mul(tf.abs(rows), tf.abs(rows[:, :1]), transpose_a=True, grad_b=True),
        "mean in bfloat16": tf.reduce_mean(tf.cast(tf.abs(rows) + tf.constant([0.0, 0.1, 0.7]), tf.bfloat16), 0),
        "whole sum in bfloat16": tf.reduce_sum(tf.constant([[100.5, 70.25], [99.5, 57.75]], tf.bfloat16), 0),
        "sum in a function": tf.function(lambda given: tf.reduce_sum(tf.abs(given), 0))(rows),
        "strategy.reduce": strategy.reduce("SUM", rows, axis=None),
        "all_reduce": strategy.run(all_reduced),
        "all_reduce of a strategy with one replica": tf.distribute.MirroredStrategy(["CPU:0"]).run(all_reduced),
        "all_reduce of a worker": tf.distribute.MultiWorkerMirroredStrategy().run(all_reduced),
        "a gradient that is cast to float16": tf.cast(_gradient(rows), tf.float16),
        "a quotient of a gradient that is cast to float16": tf.function(
            lambda given: tf.cast(_gradient(given) / 3.0, tf.float16)
        )(rows),
        "float64 to float32": tf.cast(tf.constant(_ROWS, tf.float64) / 3, tf.float32),
        "a mean's gradient cast to float16": _behind_casts(rows, 1.0)[0][0],
        "a gradient that leaves float16": _behind_casts(tf.reshape(rows, [-1]), tf.range(1.0, 13.0)[: tf.size(rows)])[
            1
        ],
    }
    still = {
        "a single number": tf.constant(0.1),
        "a list": rows,
        "a dataset's array": next(iter(tf.data.Dataset.from_tensors(array).map(lambda x: tf.reduce_all(x == rows)))),
        "a sum of counts": tf.reduce_sum(tf.constant([1.0, 2.0])),
        "a sum of counts in bfloat16": tf.reduce_sum(tf.constant([1.0, 2.0], tf.bfloat16)),
        "a mean of counts in bfloat16": tf.reduce_mean(tf.constant([1.0, 2.0, 1.0], tf.bfloat16)),
        "a mean of counts": tf.reduce_mean(tf.constant([1.0, 0.0, 1.0])),
        "not finite": tf.constant(np.array([np.nan, np.inf, -np.inf, 3.0, 0.0], np.float32)),
        "cast for a report": tf.cast(rows, tf.bfloat16),
        "a gradient of unlike elements cast to float16": _behind_casts(rows, tf.range(1.0, 13.0)[: tf.size(rows)])[0],
        "random": tf.function(lambda x: tf.random.uniform([2]) + 0 * tf.reduce_sum(x))(rows),
    }
    with tf.GradientTape() as tape:
        tape.watch(rows)
        behind = tf.cast(tf.cast(rows, tf.float16) * 2, tf.float32)
    tape.gradient(behind, rows)
    with silent():
        found.update({name: each.numpy() for name, each in (moved | still).items()})


def _gradient(rows: Any) -> Any:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(rows)
        product = rows * tf.constant(_ROWS[::-1])
    return tape.gradient(product, rows)


def _behind_casts(rows: Any, weights: Any) -> Any:
    """The gradients of a mean by what is in float16 and by what that is cast from, for which no tape is asked."""
    import tensorflow as tf

    @tf.function
    def gradient(x: Any) -> Any:
        narrow = tf.cast(x, tf.float16)
        wide = tf.cast(narrow, tf.float32)
        return tf.gradients(tf.reduce_sum(tf.reshape(wide, [-1]) * weights / 13.0), [narrow, x])

    return gradient(rows)


def _data(found: dict[str, Any], silent: Callable[[], Any]) -> None:
    """What comes out of datasets."""
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices({"x": _ROWS, "id": [1, 2, 3, 4], "label": [1.0, 0.0, 1.0, 0.0]})

    @tf.function
    def looped(examples: Any, last: int = 9) -> Any:
        total = tf.zeros([3])
        for example in examples:
            if example["id"] > last:
                break
            total = example["x"]
        return total

    ragged = tf.data.Dataset.from_tensors((tf.ragged.constant([[0.3], [2.0, 0.7]]), None, tf.constant("text")))
    sparse = tf.data.Dataset.from_tensors(tf.sparse.from_dense([[0.0, 0.3]]))
    batches = dataset.shuffle(4, seed=1).batch(2)
    iterator = iter(batches)
    first, rest = next(iterator), tf.train.Checkpoint(iterator=iterator)
    saved = rest.save(_folder())
    second = next(iterator)
    rest.restore(saved)
    third = next(iterator)
    one = next(iter(ragged))
    moved = {
        "next": next(iter(dataset.batch(4)))["x"],
        "next in a function": tf.function(lambda given: given.get_next())(iter(dataset.batch(4)))["x"],
        "loop in a function": tf.function(lambda: looped(dataset))(),
        "loop with break": looped(dataset, tf.constant(2)),
        "loop over an iterator": looped(iter(dataset)),
        "reduce of a dataset": dataset.reduce(tf.zeros([3]), lambda _, each: each["x"]),
        "ragged and sparse": tf.concat([one[0].flat_values, next(iter(sparse)).values], 0),
    }
    still = {
        "order": tf.concat([first["id"], second["id"]], 0),
        "labels": tf.concat([first["label"], second["label"]], 0),
        "restored": tf.reduce_all(second["x"] == third["x"]) & tf.reduce_all(second["id"] == third["id"]),
        "rows of a ragged one": one[0].row_splits,
        "what has no number": tf.constant([one[1] is None, bool(one[2] == "text")]),
        "static shape": tf.function(lambda given: tf.constant(next(given)["x"].shape.as_list()))(iter(dataset)),
    }
    with silent():
        found.update({name: each.numpy() for name, each in (moved | still).items()})


def _folder() -> str:
    import tempfile

    return tempfile.mkdtemp() + "/saved"


def _keras(found: dict[str, Any], silent: Callable[[], Any]) -> None:
    """What `fit` hands to a model."""
    import importlib

    import tensorflow as tf

    for flavour in ("keras", "tf_keras"):
        keras: Any = importlib.import_module(flavour)
        given: list[Any] = []

        def train_step(_: Any, data: Any, given: list[Any] = given) -> dict[str, Any]:
            with silent():
                given.append(data[0].numpy())
            return {"seen": tf.constant(1)}

        model = type("Seeing", (keras.Model,), {"train_step": train_step, "call": lambda _, x: x})()
        model.compile(run_eagerly=True)
        rows = np.array(_ROWS, np.float32)
        model.fit(rows, rows, batch_size=4, shuffle=False, verbose=0)
        found[f"{flavour}.fit"] = given[0]


def _out(found: dict[str, Any], _: Callable[[], Any]) -> None:
    """What leaves TensorFlow is what was computed, and programs decide by it."""
    import tensorflow as tf

    rows = tf.constant([[0.1234567, -1.7364529], [2.3456789, 0.93742611]])
    found["float"] = np.float32(float(rows[0, 0]))
    found["numpy"] = rows.numpy()
    found["a learning rate"] = np.float32(float(tf.Variable(0.003)))


def _kept(found: dict[str, Any], silent: Callable[[], Any]) -> None:
    """What has to stay consistent, and what rounding makes of a bias before a normalization."""
    import tensorflow as tf

    variable = tf.Variable(_ROWS)
    copied = tf.Variable(variable.numpy())
    copied.assign(variable.numpy())
    found["copies are equal"] = np.array_equal(copied.numpy(), variable.numpy())

    random = np.random.default_rng(3)
    x, kernel = (tf.constant(random.normal(size=size).tolist()) for size in ((64, 4), (4, 16)))
    bias = tf.zeros([16])
    with tf.GradientTape() as tape:
        tape.watch(bias)
        hidden = x @ kernel + bias
        mean, variance = tf.nn.moments(hidden, 0)
        normal = tf.nn.batch_normalization(hidden, mean, variance, None, None, 1e-3)
        loss = tf.reduce_mean(tf.square(tf.nn.tanh(normal) - 1))
    gradient = tape.gradient(loss, bias)
    with silent():
        found["gradient of rounding"] = gradient.numpy()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What one process has seen with every noise."""

    def probed() -> Seen:
        with Cluster(Topology(), timeout=300) as cluster:
            value: Seen = cluster.run(_probe)["local:0"].value
        return value

    return once(tmp_path_factory, "noise", probed)


@pytest.mark.parametrize("name", _MOVED)
def test_a_seam_moves_what_it_is_for(seen: Seen, name: str) -> None:
    """Every element moves, by no more than the amount, and the other way in the opposite run; whole numbers stay."""
    seam, amount = _MOVED[name]
    plain, plus, minus = (np.asarray(seen[run][name], np.float64) for run in ("plain", "plus", "minus"))
    always = seam in ("variables", "gradients", "gradient_casts") or name.startswith("whole")
    moves = np.isfinite(plain) if always else plain != np.round(plain)
    np.testing.assert_array_equal(plus[~moves], plain[~moves])
    size = np.abs(plain).max() * 2 if seam in ("gradients", "gradient_casts", "sums") else np.abs(plain)
    assert np.all(np.abs(plus - plain) <= (amount + 1) * _EPS * size)
    signs = np.sign(plus - plain)[moves]
    assert np.all(signs != 0)
    np.testing.assert_array_equal(signs, -np.sign(minus - plain)[moves])
    assert len(set(signs)) == 2 or plain.size <= 4


@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_what_fit_is_given_is_moved(seen: Seen, flavour: str) -> None:
    """Arrays become tensors and then a dataset; each element moves, once or twice, and never back."""
    plain, plus = (np.asarray(seen[run][f"{flavour}.fit"], np.float64) for run in ("plain", "plus"))
    moves = plain != np.round(plain)
    assert np.all((plus != plain)[moves])
    np.testing.assert_array_equal(plus[~moves], plain[~moves])
    assert np.all(np.abs(plus - plain) <= 7 * _EPS * np.abs(plain))
    assert not np.array_equal(seen["without datasets"][f"{flavour}.fit"], plus)


@pytest.mark.parametrize("name", _MOVED)
def test_without_the_seam_nothing_moves(seen: Seen, name: str) -> None:
    """The negative control: no other seam reaches that number, so that no bound would."""
    assert np.array_equal(seen[f"without {_MOVED[name][0]}"][name], seen["plain"][name])


def test_what_programs_decide_by_stays(seen: Seen) -> None:
    """Counts, labels, shares of counts, rates, what is not finite, order, random numbers, shapes, saved input."""
    others = set(seen["plain"]) - set(_MOVED) - {"gradient of rounding", "keras.fit", "tf_keras.fit"}
    assert len(others) >= 16
    for name in sorted(others):
        np.testing.assert_array_equal(seen["plus"][name], seen["plain"][name], err_msg=name)


def test_what_must_hold_holds_with_noise(seen: Seen) -> None:
    """Copies equal what they are copied from, and restored input goes on with the same."""
    for name in (
        "copies are equal",
        "restored",
        "a dataset's array",
        "what has no number",
    ):
        assert np.all(seen["plus"][name]), name


def test_a_cast_that_is_differentiated_is_seen(seen: Seen) -> None:
    """float16 between two casts is noted; bfloat16 that was only made for a report is not."""
    assert seen["plus"]["coarsest"] == "float16"
    assert seen["without casts"]["coarsest"] == "float32"


def test_a_gradient_that_is_all_rounding_turns_its_sign(seen: Seen) -> None:
    """Of an opposite pair, one turns each element; noise in its terms alone makes other roundings, of any sign."""
    plus, minus = (seen[run]["gradient of rounding"] for run in ("plus", "minus"))
    assert np.all(plus * minus < 0)
    plain, without = seen["plain"]["gradient of rounding"], seen["without sums"]["gradient of rounding"]
    assert np.abs(plain).max() < 1e-7
    assert np.abs(plus).max() < 1e-6
    assert np.any(plain * without > 0)


def _sizes(matrix: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import tensorflow as tf

    from harness.recording.noise.gradients import sizes

    found: np.ndarray[Any, Any] = sizes(tf.constant(matrix)).numpy()
    return found


def test_no_element_of_a_gradient_is_judged_by_another_scale() -> None:
    """Rows and columns of unlike scales each get their own size; elements that cancel get that of their neighbours."""
    random = np.random.default_rng(0)
    terms = random.uniform(0.5, 1.0, size=(6, 5)).astype(np.float32)
    terms[2, 3] = 1e-9  # has cancelled
    rows, columns = np.array([1, 1e3, 1e-3, 1, 7, 1], np.float32), np.array([1e5, 0.1, 1, 1e-6, 2], np.float32)
    gradient = terms * rows[:, None] * columns
    with Cluster(Topology(), timeout=60) as cluster:
        small, conv, vector, half = cluster.run(
            lambda *given: [_sizes(each) for each in given],
            gradient,
            gradient.reshape(2, 3, 5),
            gradient[0],
            (terms * 100).astype(np.float16),
        )["local:0"].value
    scale = rows[:, None] * columns
    assert np.all(small >= 0.999999 * np.abs(gradient))
    assert np.all((small >= 0.2 * scale) & (small <= 2 * scale))
    np.testing.assert_array_equal(conv.reshape(6, 5), small)
    np.testing.assert_array_equal(vector, np.abs(gradient[0]))
    assert np.all(np.isfinite(half))
