"""A classifier of digits on a mesh: one layer cut by its columns and the next by its rows, with momentum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scenarios.programs import digits

_HIDDEN, _STEPS, _RATE, _KEEP = 16, 4, 0.1, 0.9


def make(*, axis: str | None = "model", saves: bool = False) -> Callable[[Any, Any], None]:
    """The program.

    Args:
        axis: of the mesh along which both layers are cut, None where each device has them whole.
        saves: whether each step is saved, and the last one that was saved is where it begins.
    """

    def train(strategy: Any, record: Any) -> None:
        import numpy as np
        import tensorflow as tf
        from tensorflow.experimental import dtensor

        mesh, whole = strategy.mesh, dtensor.UNSHARDED
        cut = whole if axis is None else axis
        random = np.random.default_rng(5)
        starts = [
            random.normal(size=size).astype(np.float32) / 8 for size in ((64, _HIDDEN), (_HIDDEN, digits.CLASSES))
        ]
        layouts = [dtensor.Layout(axes, mesh) for axes in ([whole, cut], [cut, whole])]

        def variables(name: str, values: list[Any]) -> list[Any]:
            laid_out = [dtensor.relayout(value, layout) for value, layout in zip(values, layouts, strict=True)]
            return [dtensor.DVariable(value, name=f"{name}_{k}") for k, value in enumerate(laid_out)]

        weights = variables("weights", starts)
        slots = variables("slots", [np.zeros_like(start) for start in starts])

        @tf.function
        def step(images: Any, labels: Any) -> tuple[Any, list[Any]]:
            with tf.GradientTape() as tape:
                logits = tf.matmul(tf.nn.relu(tf.matmul(images, weights[0])), weights[1])
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, weights)
            for weight, slot, gradient in zip(weights, slots, gradients, strict=True):
                moved = _KEEP * slot + gradient  # which is not read from the slot: TensorFlow may do so too early
                slot.assign(moved)
                weight.assign_sub(_RATE * moved)
            return loss, gradients

        checkpoint = tf.train.Checkpoint(weights=weights, slots=slots)
        manager = tf.train.CheckpointManager(checkpoint, str(record.directory), max_to_keep=2) if saves else None
        if manager is not None and manager.latest_checkpoint:
            checkpoint.restore(manager.latest_checkpoint).assert_consumed()
        done = 0 if manager is None else int((manager.latest_checkpoint or "-0").rpartition("-")[2])
        data = digits.load(count=_STEPS * digits.GLOBAL_BATCH)
        for number in range(done, _STEPS):
            rows = slice(number * digits.GLOBAL_BATCH, (number + 1) * digits.GLOBAL_BATCH)
            images = _part(mesh, data.images[rows].reshape(-1, 64))
            labels = _part(mesh, data.labels[rows])
            loss, gradients = step(images, labels)
            if manager is not None:
                manager.save()
            record.step(loss=loss, gradients=gradients, variables=[*weights, *slots])

    return train


def _part(mesh: Any, batch: Any) -> Any:
    """A batch along the mesh's axis of that name: each client packs what its devices have of it."""
    import numpy as np
    import tensorflow as tf
    from tensorflow.experimental import dtensor

    layout = dtensor.Layout(["batch", *[dtensor.UNSHARDED] * (batch.ndim - 1)], mesh)
    rows = np.split(batch, mesh.dim_size("batch"))
    parts = []
    for device, place in zip(mesh.local_devices(), mesh.local_device_locations(), strict=True):
        with tf.device(device):
            parts.append(tf.constant(rows[place["batch"]]))
    return dtensor.pack(parts, layout)
