"""What makes a right training differ from one on one device by design, and is noted in case that it differs."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.scripts.stand_ins import StandIns

__all__ = ["doubts"]

RANDOM, NORMALIZED = "random numbers in a replica", "batch statistics of a replica"
_GENERATORS = ("gen_random_ops", "gen_stateless_random_ops", "gen_stateless_random_ops_v2", "gen_stateful_random_ops")
_DRAWS = ("random", "stateless_random", "stateful", "parameterized", "truncated", "stateless_truncated", "multinomial")
_NORMALIZING = {
    "keras": "keras.src.layers.normalization.batch_normalization",
    "tf_keras": "tf_keras.src.layers.normalization.batch_normalization",
}


@contextlib.contextmanager
def doubts(stand_ins: StandIns) -> Iterator[None]:
    """Note both where replicas do it, within this context."""
    with contextlib.ExitStack() as stack:
        for name in _GENERATORS:
            module = importlib.import_module(f"tensorflow.python.ops.{name}")
            for function in [each for each in vars(module) if each.startswith(_DRAWS)]:
                if callable(getattr(module, function)) and not function.endswith(
                    ("eager_fallback", "_counter", "_alg")
                ):
                    stack.enter_context(patched(module, function, _drawing(stand_ins)))
        for package, name in _NORMALIZING.items():
            if package in sys.modules:
                stack.enter_context(_normalizing(importlib.import_module(name), stand_ins))
        yield


def _in_replica() -> bool:
    import tensorflow as tf

    return tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()


def _drawing(stand_ins: StandIns) -> Callable[..., Any]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*args: Any, **options: Any) -> Any:
            if _in_replica():
                stand_ins.note(RANDOM, "those of one replica", "assumed")
            return original(*args, **options)

        return draw

    return around


@contextlib.contextmanager
def _normalizing(module: Any, stand_ins: StandIns) -> Iterator[None]:
    kinds = [
        kind
        for name in ("BatchNormalization", "BatchNormalizationBase")
        if (kind := getattr(module, name, None)) is not None and "call" in vars(kind)
    ]

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(layer: Any, *args: Any, **options: Any) -> Any:
            training = options.get("training", args[1] if len(args) > 1 else None)
            if training is not False and not getattr(layer, "synchronized", False) and _in_replica():
                stand_ins.note(f"{NORMALIZED} ({layer.name})", "those of the whole batch", "assumed")
            return original(layer, *args, **options)

        return call

    with contextlib.ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(patched(kind, "call", around))
        yield
