"""Programs on a mesh that are judged otherwise than by their numbers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

_STATE = {"weight": 0.5, "slot": 0.0}
_X = np.random.default_rng(3).normal(size=(2, 8, 4)).astype("float32")


def _on(mesh: Any, value: Any, *axes: str) -> Any:
    return dtensor.relayout(tf.constant(value), dtensor.Layout(list(axes), mesh))


def doubles_parts(mesh: Any, after_step: Any) -> None:
    """Python on what each device has, until a step ends; what comes then is not the step's."""
    value = _on(mesh, np.ones([4], np.float32), "batch")
    doubled = []
    for part in dtensor.unpack(value)[:2]:
        with tf.device(part.device):
            doubled.append(_double(part))
    after_step(1)
    doubled.clear()


def _double(part: Any) -> Any:
    with tf.name_scope("doubled"):
        return part * 2.0


def drops(strategy: Any, record: Any) -> None:
    """A right step that drops out, and gets nothing on the mesh."""
    mesh, whole = strategy.mesh, dtensor.UNSHARDED
    weights = dtensor.DVariable(_on(mesh, np.ones([4, 2], np.float32), whole, whole), name="weights")

    @tf.function
    def step(number: Any) -> Any:
        with tf.GradientTape() as tape:
            dropped = tf.nn.experimental.stateless_dropout(weights.read_value(), 0.5, seed=[3, number])
            loss = tf.reduce_mean(dropped**2)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return loss

    for number in range(2):
        record.step(loss=step(number), variables=[weights])


def lags(strategy: Any, record: Any) -> None:
    """Right, with slots that a step writes and then reads."""
    mesh, whole = strategy.mesh, dtensor.UNSHARDED

    def variable(name: str, rows: int, value: float) -> Any:
        return dtensor.DVariable(_on(mesh, np.full([rows, 2], value, np.float32), whole, whole), name=name)

    weights, slots = ([variable(f"{name}_{rows}", rows, value) for rows in (4, 2)] for name, value in _STATE.items())

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(tf.matmul(x, weights[0]), weights[1]) ** 2)
        for weight, slot, gradient in zip(weights, slots, tape.gradient(loss, weights), strict=True):
            slot.assign(0.9 * slot + gradient)
            weight.assign_sub(0.1 * slot)
        return loss

    for x in _X:
        record.step(loss=step(_on(mesh, x, "batch", whole)), variables=[*weights, *slots])


def saves(strategy: Any, record: Any) -> None:
    """Saves each step, and goes on from the last one, whose weights may have been laid out otherwise."""
    mesh = strategy.mesh
    weights = dtensor.DVariable(_on(mesh, np.ones([4, 4], np.float32), dtensor.UNSHARDED, "model"), name="weights")
    done = dtensor.DVariable(_on(mesh, 0), name="done")
    checkpoint = tf.train.Checkpoint(weights=weights, done=done)
    manager = tf.train.CheckpointManager(checkpoint, str(record.directory), max_to_keep=2)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint).assert_consumed()

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(x, weights) ** 2)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return loss

    for number in range(int(done), 4):
        loss = step(_on(mesh, _X[number % 2], "batch", dtensor.UNSHARDED))
        done.assign(_on(mesh, number + 1))
        manager.save()
        record.step(loss=loss, variables=[weights])


def mixes_up(strategy: Any, record: Any) -> None:
    """Saves what the devices have, one after another along the wrong axis."""
    mesh, whole = strategy.mesh, dtensor.UNSHARDED
    saved = record.directory / "weights.npy"
    value = np.load(saved) if saved.exists() else np.arange(16, dtype=np.float32).reshape(4, 4)
    weights = dtensor.DVariable(_on(mesh, value, whole, "model"), name="weights")

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(x, weights) ** 2)
        weights.assign_sub(0.01 * tape.gradient(loss, weights))
        return loss

    for _ in range(2):
        loss = step(_on(mesh, _X[0], "batch", whole))
        parts = [part.numpy() for part in dtensor.unpack(weights.read_value())][: mesh.dim_size("model")]
        np.save(saved, np.concatenate(parts, axis=0).reshape(4, 4))
        record.step(loss=loss, variables=[weights])


def names_examples(strategy: Any, record: Any) -> None:
    """Reports which examples a step had, by the axis of the batch and as a whole."""
    mesh, whole = strategy.mesh, dtensor.UNSHARDED
    weights = dtensor.DVariable(_on(mesh, np.ones([4, 2], np.float32), whole, whole), name="weights")

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(x, weights) ** 2)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return loss

    for number, x in enumerate(_X):
        ids = _on(mesh, 8 * number + np.arange(8), "batch" if number else whole)
        record.step(loss=step(_on(mesh, x, "batch", whole)), variables=[weights], examples=ids)
