"""Graphs of a run with noise are carried out as they are built, but where their rewriting puts casts into them."""

from __future__ import annotations

import contextlib

from simulator import Cluster, Topology


def _is_off(*, noise: bool, casts: bool = False) -> bool:
    """Whether functions that are called are told to have no rewriting."""
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.eager import context

    from harness.recording.noise import Noise

    with Noise(3).active() if noise else contextlib.nullcontext():
        if casts:
            tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": True})
        told = config_pb2.ConfigProto.FromString(context.context().function_call_options.config_proto_serialized)
    return bool(told.graph_options.rewrite_options.disable_meta_optimizer)


def _several() -> list[bool]:
    return [_is_off(noise=False), _is_off(noise=True), _is_off(noise=False), _is_off(noise=True, casts=True)]


def test_rewriting_is_off_with_noise_only() -> None:
    """The program's own casts stay, and a run without noise is what it was."""
    with Cluster(Topology(worker=1), timeout=60) as cluster:
        assert cluster.run(_several)["worker:0"].value == [False, True, False, False]
