"""Training on the handwritten digits gives the same numbers under every strategy as on one device."""

from __future__ import annotations

import pytest

from harness import StrategyCase, verify
from scenarios.programs import coordinator, keras_fit, keras_loop, models, plain_loop, unknown_length

_QUICK = ("mirrored-2", "mirrored-3", "central_storage-2", "multi_worker-2", "multi_worker-2x2")
_OTHERS = (
    "default",
    "one_device",
    "mirrored-1",
    "mirrored-2:hierarchical_copy",
)
_HARDWARE = ("mirrored-2:nccl", "multi_worker-2:nccl", "tpu")
_RARE = (
    "mirrored-2:reduction_to_one_device",
    "mirrored-4",
    "multi_worker-3",
    "multi_worker-4",
    "multi_worker-2:ring",
    "central_storage-3",
    *_HARDWARE,
)
# The exact program is cheap enough to meet strategies of every kind in the quick profile.
EVERY_SYNCHRONOUS = pytest.mark.strategies(*_QUICK, *_OTHERS, full=_RARE)
# In the quick profile the other kinds meet the exact program, and the forms below.
SYNCHRONOUS = pytest.mark.strategies(
    "multi_worker-2",
    full=("mirrored-3", "central_storage-2", "multi_worker-2x2", *_HARDWARE),
)
_FIXED = "parameter_server-2w2p:fixed_shards"
EVERY_PARAMETER_SERVER = pytest.mark.strategies(
    "parameter_server-1w1p",
    "parameter_server-2w2p",
    _FIXED,
    full=("parameter_server-2w1p", "parameter_server-2w2p:min_size", "parameter_server-2w2p:max_size"),
)
PARAMETER_SERVERS = pytest.mark.strategies(
    _FIXED, full=("parameter_server-1w1p", "parameter_server-2w2p", "parameter_server-2w2p:min_size")
)


def _models(*quick: str) -> pytest.MarkDecorator:
    """Each model with an optimizer of its own: how gradients are reduced does not depend on both. In the quick profile
    those named here.
    """
    pairs = [("cnn", "momentum"), ("mlp", "adam")]
    marks = [() if "-".join(pair) in quick else (pytest.mark.full,) for pair in pairs]
    params = [pytest.param(*pair, marks=mark) for pair, mark in zip(pairs, marks, strict=True)]
    return pytest.mark.parametrize(("model", "optimizer"), params)


def _flavour(loop: str) -> models.Flavour:
    return "tf_keras" if loop.startswith("tf_keras") else "keras"


@EVERY_SYNCHRONOUS
@pytest.mark.loop("plain")
def test_custom_loop_on_plain_variables_is_exact(strategy: StrategyCase) -> None:
    """A hinge-loss classifier whose every number is exactly representable is bit for bit the same."""
    assert verify(plain_loop.make(), strategy, tier="exact")


@SYNCHRONOUS
@_models("mlp-adam")
@pytest.mark.parametrize("loop", ["keras3_loop", "tf_keras_loop"])
def test_custom_loop(
    strategy: StrategyCase, loop: str, model: models.ModelName, optimizer: models.OptimizerName
) -> None:
    """A custom loop around a Keras model, as the "Custom training" tutorial writes it."""
    assert verify(keras_loop.make(_flavour(loop), model, optimizer), strategy)


@SYNCHRONOUS
@_models("cnn-momentum")
@pytest.mark.parametrize("loop", ["keras3_fit", "tf_keras_fit"])
def test_fit(strategy: StrategyCase, loop: str, model: models.ModelName, optimizer: models.OptimizerName) -> None:
    """`Model.fit`, then `evaluate` and `predict`."""
    assert verify(keras_fit.make(_flavour(loop), model, optimizer), strategy)


@EVERY_PARAMETER_SERVER
@pytest.mark.loop("coordinator")
@pytest.mark.parametrize("data", ["arguments", "per_worker_dataset"])
def test_coordinator_applies_each_update_once(strategy: StrategyCase, data: str) -> None:
    """Updates that commute are exact for any interleaving of asynchronous workers; a lost or repeated one shows."""
    assert verify(coordinator.make_commuting(data=data), strategy, tier="exact")  # type: ignore[arg-type]


@PARAMETER_SERVERS
@_models("mlp-adam")
@pytest.mark.parametrize("loop", ["keras3_coordinator", "tf_keras_coordinator"])
def test_coordinator_that_joins_each_step(
    strategy: StrategyCase, loop: str, model: models.ModelName, optimizer: models.OptimizerName
) -> None:
    """With a join after every schedule, parameter servers train as one device does."""
    assert verify(coordinator.make_model(_flavour(loop), model, optimizer), strategy)


@PARAMETER_SERVERS
@pytest.mark.loop("tf_keras_fit_commuting")
def test_asynchronous_fit_applies_each_update_once(strategy: StrategyCase) -> None:
    """`Model.fit` under parameter servers, asynchronous, with updates that commute."""
    assert verify(keras_fit.make_commuting(), strategy, tier="exact")


@pytest.mark.strategies("mirrored-2", full=("mirrored-3", "central_storage-2", "multi_worker-2"))
@pytest.mark.parametrize(
    "loop", ["keras3_fit:steps_per_execution", pytest.param("tf_keras_fit:steps_per_execution", marks=pytest.mark.full)]
)
def test_fit_with_several_steps_per_execution(strategy: StrategyCase, loop: str) -> None:
    """Two steps in one call of the training function are two steps."""
    assert verify(keras_fit.make(_flavour(loop), "mlp", "adam", steps_per_execution=2), strategy)


_MORE = ("mirrored-3", "multi_worker-2")
FEW = pytest.mark.strategies("mirrored-2", full=(*_MORE, "central_storage-2"))
# Not central storage: XLA compiles no function that uses variables of another device.
FEW_COMPILED = pytest.mark.strategies("mirrored-2", full=_MORE)


@FEW_COMPILED
@pytest.mark.parametrize(
    ("loop", "mode", "iterate"),
    [
        ("keras3_loop", "eager", "dataset"),
        pytest.param("keras3_loop", "function", "iterator", marks=pytest.mark.full),
        # In the quick profile test_precision compiles a step.
        pytest.param("tf_keras_loop", "jit", "dataset", marks=pytest.mark.full),
        pytest.param("keras3_loop", "jit", "dataset", marks=pytest.mark.full),
        pytest.param("tf_keras_loop", "eager", "dataset", marks=pytest.mark.full),
        pytest.param("tf_keras_loop", "function", "iterator", marks=pytest.mark.full),
    ],
)
def test_custom_loop_in_other_forms(
    strategy: StrategyCase, loop: str, mode: keras_loop.Mode, iterate: keras_loop.Iterate
) -> None:
    """A step that is eager or compiled by XLA, and a loop over the iterator instead of the dataset."""
    assert verify(keras_loop.make(_flavour(loop), "mlp", "adam", mode=mode, iterate=iterate), strategy)


@FEW
@pytest.mark.parametrize(
    ("loop", "style", "source"),
    [
        ("keras3_fit", "functional", "dataset"),
        pytest.param("tf_keras_fit", "subclassed", "arrays", marks=pytest.mark.full),
        pytest.param("keras3_fit", "subclassed", "arrays", marks=pytest.mark.full),
        pytest.param("tf_keras_fit", "functional", "dataset", marks=pytest.mark.full),
    ],
)
def test_fit_in_other_forms(strategy: StrategyCase, loop: str, style: models.Style, source: keras_fit.Source) -> None:
    """Functional and subclassed models, fitted from a dataset and from NumPy arrays, with validation data."""
    train = keras_fit.make(_flavour(loop), "mlp", "adam", style=style, source=source)
    assert verify(train, strategy)


# Under central storage tf_keras counts the end of the first epoch in some runs only.
@pytest.mark.strategies("mirrored-2", full=("default", "mirrored-3"))
@pytest.mark.parametrize(
    "loop", ["keras3_fit:unknown_length", pytest.param("tf_keras_fit:unknown_length", marks=pytest.mark.full)]
)
def test_fit_counts_its_steps(strategy: StrategyCase, loop: str) -> None:
    """Of data of which `fit` does not know the length before its first end."""
    assert verify(unknown_length.make(_flavour(loop)), strategy)


@pytest.mark.full  # in the quick profile test_fit knows how many there are
@pytest.mark.strategies("mirrored-2")
@pytest.mark.parametrize("loop", ["keras3_fit", "tf_keras_fit"])
def test_fit_counts_the_steps_of_a_known_length(strategy: StrategyCase, loop: str) -> None:
    """The same, with the length told: the number of steps is right."""
    assert verify(unknown_length.make(_flavour(loop), known=True), strategy)
