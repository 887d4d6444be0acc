"""What makes a right training differ from one on one device by design, and is noted in case that it differs."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from harness.evidence.stand_ins import DRAWN
from harness.recording.patches import patched
from harness.recording.scripts.stand_ins import StandIns
from harness.recording.witness.statistics import by_batch, layers

_AGAIN = "those of a run that was never killed"
_pipeline = threading.local()
RANDOM, NORMALIZED = "random numbers in a replica", "batch statistics of a replica"
_GENERATORS = ("gen_random_ops", "gen_stateless_random_ops", "gen_stateless_random_ops_v2", "gen_stateful_random_ops")
_DRAWS = ("random", "stateless_random", "stateful", "parameterized", "truncated", "stateless_truncated", "multinomial")


@contextlib.contextmanager
def design_differences(stand_ins: StandIns, *, yields: bool) -> Iterator[None]:
    """Note both where replicas do it, within this context.

    Args:
        stand_ins: collects them.
        yields: whether what replicas draw is what those of the run drew, and the rows of each are normalised by
            themselves, so that neither is a doubt.
    """
    with contextlib.ExitStack() as stack:
        for name in () if yields else _GENERATORS:
            module = importlib.import_module(f"tensorflow.python.ops.{name}")
            for function in [each for each in vars(module) if each.startswith(_DRAWS)]:
                if callable(getattr(module, function)) and not function.endswith(
                    ("eager_fallback", "_counter", "_alg")
                ):
                    stack.enter_context(patched(module, function, _drawing(stand_ins)))
        for kind in () if yields else layers():
            stack.enter_context(patched(kind, "call", _normalizing(stand_ins)))
        if stand_ins.script.disturbed:
            stack.enter_context(_pipelines())
            stack.enter_context(_python(stand_ins))
        yield


@contextlib.contextmanager
def _pipelines() -> Iterator[None]:
    """Within this context it is known what is traced for a data set."""
    from tensorflow.python.data.ops import structured_function

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(*args: Any, **options: Any) -> Any:
            before, _pipeline.inside = getattr(_pipeline, "inside", False), True
            try:
                return original(*args, **options)
            finally:
                _pipeline.inside = before

        return init

    with patched(structured_function.StructuredFunctionWrapper, "__init__", around):
        yield


@contextlib.contextmanager
def _python(stand_ins: StandIns) -> Iterator[None]:
    """Note what the script draws by itself; Keras asks Python's `random` for seeds, which is no matter.

    Nor is a seed, as `keras.utils.set_random_seed` gives it, from which nothing is drawn by NumPy.
    """
    import random

    import numpy as np

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*args: Any, **options: Any) -> Any:
            if stand_ins.asked_by_script():
                stand_ins.note(DRAWN, _AGAIN)
            return original(*args, **options)

        return draw

    def seeding(original: Callable[..., Any]) -> Callable[..., Any]:
        def seed(*args: Any, **options: Any) -> None:
            look()
            original(*args, **options)
            states.append(state())

        return seed

    def state() -> tuple[int, bytes]:
        found = np.random.get_state(legacy=False)["state"]
        return found["pos"], found["key"].tobytes()

    def look() -> None:
        if state() != states[-1]:
            stand_ins.note(DRAWN, _AGAIN, where=stand_ins.script.name)

    states = [state()]
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(np.random, "seed", seeding))
        for name in ("shuffle", "sample", "random", "choice", "choices", "randint", "randrange", "uniform", "gauss"):
            stack.enter_context(patched(random, name, around))
        yield
        look()


def _in_replica() -> bool:
    import tensorflow as tf

    return tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()


def _drawing(stand_ins: StandIns) -> Callable[..., Any]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*args: Any, **options: Any) -> Any:
            if getattr(_pipeline, "inside", False):
                stand_ins.note(DRAWN, _AGAIN)
            elif _in_replica():
                stand_ins.note(RANDOM, "those of one replica", "assumed")
            return original(*args, **options)

        return draw

    return around


def _normalizing(stand_ins: StandIns) -> Callable[..., Any]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(layer: Any, *args: Any, **options: Any) -> Any:
            training = options.get("training", args[1] if len(args) > 1 else None)
            if by_batch(layer, training) and _in_replica():
                stand_ins.note(f"{NORMALIZED} ({layer.name})", "those of the whole batch", "assumed")
            return original(layer, *args, **options)

        return call

    return around
