"""A switch that graphs ask for at each step: a call of Python out of a graph would take about 0.1 ms.

Graphs know it by its name, and hold no handle of it: what a graph captures TensorFlow would want to save with it. A
graph that was saved and loaded asks for another one, which nobody has turned on.
"""

from __future__ import annotations

import uuid
from typing import Any

FIRST = "/cpu:0"
"""The device that every process has."""


def unique_name(what: str) -> str:
    """The name of something of a device: also a graph that is loaded in another process finds there what is its own."""
    return f"lockstep_{what}_{uuid.uuid4().hex}"


class Switch:
    """Something that graphs can ask for at next to no cost: a variable that there is or is not."""

    def __init__(self) -> None:
        self._name = unique_name("switch")
        self._on = False
        self._variables: dict[str, Any] = {}

    def turn(self, *, on: bool) -> None:
        """Turn it, for all graphs that are run from now on."""
        if on is not self._on:
            self._on = on
            for device in self._variables:
                self._set(device)

    def is_on(self, device: str) -> Any:
        """A tensor of the graph that is being built, on a device."""
        import tensorflow as tf

        if device not in self._variables:
            with tf.init_scope():
                self._variables[device] = self._variable(device)
            self._set(device)
        with tf.device(device):
            return tf.raw_ops.VarIsInitializedOp(resource=self._variable(device))

    def _set(self, device: str) -> None:
        import tensorflow as tf

        with tf.init_scope(), tf.device(device):
            if self._on:
                tf.raw_ops.AssignVariableOp(resource=self._variables[device], value=tf.constant(value=True))
            else:
                tf.raw_ops.DestroyResourceOp(resource=self._variables[device], ignore_lookup_error=True)

    def _variable(self, device: str) -> Any:
        import tensorflow as tf

        with tf.device(device):
            return tf.raw_ops.VarHandleOp(dtype=tf.bool, shape=[], shared_name=self._name)
