"""Mixed precision: a float16 or bfloat16 model, and loss scaling that meets an overflow on one replica only."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from scenarios.programs import digits, models

Bad = Literal["inf", "nan"]
Xla = Literal["no", "jit_compile", "set_jit"]


def make(
    flavour: models.Flavour, policy: Literal["mixed_float16", "mixed_bfloat16", "float32"], *, xla: Xla = "no"
) -> Callable[[Any, Any], None]:
    """Trains a small dense classifier under this policy; float16 comes with a `LossScaleOptimizer`.

    With `jit_compile` XLA compiles each replica's forward and backward pass, with `set_jit` whatever clusters it finds
    in the whole step.
    """
    return functools.partial(_train, flavour=flavour, policy=policy, xla=xla)


def make_overflow(flavour: models.Flavour, bad: Bad, example: int) -> Callable[[Any, Any], None]:
    """Exact: a linear loss over batches of 12, in the second of which the gradient of one example is not finite.

    One device skips that step and halves the loss scale. `example` 11 is on the last replica, 0 on the first.
    """
    return functools.partial(_overflow, flavour=flavour, bad=bad, example=example)


def _train(strategy: Any, record: Any, *, flavour: models.Flavour, policy: str, xla: Xla) -> None:
    import tensorflow as tf

    if xla == "set_jit":
        _cluster_automatically()

    keras = models.keras_module(flavour)
    keras.mixed_precision.set_global_policy(policy)
    with strategy.scope():
        dense = functools.partial(keras.layers.Dense, kernel_initializer=models.initializer(1))
        model = keras.Sequential(
            [keras.Input((64,)), dense(16, activation="tanh"), dense(digits.CLASSES, dtype="float32")]
        )
        optimizer = keras.optimizers.SGD(0.125)
        if policy == "mixed_float16":
            optimizer = _scaling(keras, optimizer, 128.0)
        optimizer.build(model.trainable_variables)
        per_example = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=models.no_reduction(keras))

    def forward_and_back(pixels: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = per_example(labels, model(pixels, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=digits.GLOBAL_BATCH)
            scaled = _scaled(optimizer, loss)
        return loss, tape.gradient(scaled, model.trainable_variables)

    compiled = tf.function(forward_and_back, jit_compile=True) if xla == "jit_compile" else forward_and_back

    def replica_step(ids: Any, images: Any, labels: Any) -> Any:
        loss, gradients = compiled(tf.reshape(images, [-1, 64]), labels)
        _apply(optimizer, gradients, model.trainable_variables)
        return loss, ids

    @tf.function
    def train_step(batch: Any) -> Any:
        losses, ids = strategy.run(replica_step, args=batch)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None), ids

    for batch in strategy.experimental_distribute_dataset(digits.batches(digits.load(144))):
        loss, ids = train_step(batch)
        record.step(loss=loss, variables=models.variables_of(model, optimizer), examples=ids)
    record.final(variables=models.variables_of(model, optimizer))


def _cluster_automatically() -> None:
    """`set_jit`, which by default clusters on GPUs only; so TensorFlow's own tests switch it on for CPUs
    (tensorflow/python/framework/test_util.py, TestCase.__init__).
    """
    import tensorflow as tf
    from tensorflow.python.client import pywrap_tf_session

    pywrap_tf_session.TF_SetTfXlaCpuGlobalJit(True)
    pywrap_tf_session.TF_SetXlaMinClusterSize(1)
    # Else a cluster is compiled once it has run several times.
    pywrap_tf_session.TF_SetXlaEnableLazyCompilation(False)
    tf.config.optimizer.set_jit("autoclustering")


def _scaling(keras: Any, optimizer: Any, scale: float) -> Any:
    """Loss scaling that doubles after every second good step; the constructors differ in Keras 2 and 3."""
    if hasattr(keras.optimizers, "LossScaleOptimizer"):
        return keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=scale, dynamic_growth_steps=2)
    wrapped = keras.mixed_precision.LossScaleOptimizer
    return wrapped(optimizer, initial_scale=scale, dynamic_growth_steps=2)


def _scaled(optimizer: Any, loss: Any) -> Any:
    scale = getattr(optimizer, "get_scaled_loss", None) or getattr(optimizer, "scale_loss", None)
    return loss if scale is None else scale(loss)


def _apply(optimizer: Any, gradients: Any, variables: Any) -> None:
    """Keras 2 wants gradients unscaled by the caller; Keras 3 unscales them itself."""
    if hasattr(optimizer, "get_unscaled_gradients"):
        gradients = optimizer.get_unscaled_gradients(gradients)
    optimizer.apply_gradients(zip(gradients, variables, strict=True))


def _overflow(strategy: Any, record: Any, *, flavour: models.Flavour, bad: Bad, example: int) -> None:
    import numpy as np
    import tensorflow as tf

    keras = models.keras_module(flavour)
    slopes = np.tile(np.arange(12, dtype=np.float32)[:, None], (4, 2)) / 4
    slopes[12 + example] = float(bad)
    with strategy.scope():
        layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        layer.build((None, 2))
        optimizer = _scaling(keras, keras.optimizers.SGD(0.125), 8.0)
        optimizer.build(layer.trainable_variables)

    def replica_step(x: Any) -> None:
        with tf.GradientTape() as tape:
            scaled = _scaled(optimizer, tf.reduce_sum(layer(x)))
        _apply(optimizer, tape.gradient(scaled, layer.trainable_variables), layer.trainable_variables)

    @tf.function
    def train_step(x: Any) -> None:
        strategy.run(replica_step, args=(x,))

    for x in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(slopes).batch(12)):
        train_step(x)
        scale = optimizer.dynamic_scale if hasattr(optimizer, "dynamic_growth_steps") and flavour == "keras" else None
        scale = optimizer.loss_scale if scale is None else scale.value
        record.step(variables={"weights": layer.kernel}, metrics={"loss_scale": tf.convert_to_tensor(scale)})
