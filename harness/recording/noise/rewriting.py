"""Graphs that are carried out as they are built: on CPUs Grappler's rewriting takes most of a noisy run's first step.

It puts operations together and leaves out what is not needed, so that a graph is sooner done each time. Ten steps do
not earn that. What it changes is of the size of rounding, as noise is. But for casts: where a program asks for them
(`auto_mixed_precision`), and on GPUs, whose layouts it chooses, it stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from harness.recording.noise.protocol import NoiseSource

_CASTS = ("auto_mixed_precision", "auto_mixed_precision_onednn_bfloat16", "auto_mixed_precision_mkl")


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Leave graphs as they are built in this context."""
    import tensorflow as tf
    from tensorflow.core.protobuf import rewriter_config_pb2
    from tensorflow.python.eager import context

    if tf.config.list_physical_devices("GPU"):
        yield
        return
    original = context.Context.config
    on = rewriter_config_pb2.RewriterConfig.ON

    def config(of: Any) -> Any:
        found = original.fget(of)
        rewriting = found.graph_options.rewrite_options
        rewriting.disable_meta_optimizer |= all(getattr(rewriting, each) != on for each in _CASTS)
        return found

    with mock.patch.object(context.Context, "config", property(config)):
        context.context().function_call_options = None  # made of it, and kept
        try:
            yield
        finally:
            context.context().function_call_options = None
