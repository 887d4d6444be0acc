"""Which tests want GPUs, as TensorFlow's `combinations` asks for them: whether there are enough, and what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.tf_tests.inside.state import STATE
from simulator.agent.devices import described

_MARK = "_lockstep_watched"


def install() -> None:
    """Note what is decided for each test, by the process of its file; again after `importlib.reload`."""
    from tensorflow.python.distribute import combinations

    kind = combinations.GPUCombination
    if hasattr(kind, _MARK):
        return
    setattr(kind, _MARK, True)
    decide = kind.should_execute_combination

    def should_execute_combination(self: Any, kwargs: Mapping[str, Any]) -> tuple[bool, str | None]:
        runs, reason = decide(self, kwargs)
        if _wanted(combinations, kwargs):
            if runs:
                STATE.computed_on = _found()
            else:
                STATE.gpus_missing = str(reason)
        return runs, reason

    kind.should_execute_combination = should_execute_combination


def _wanted(combinations: Any, kwargs: Mapping[str, Any]) -> bool:
    names = ("required_gpus", "required_physical_gpus")
    strategies = [each for each in kwargs.values() if isinstance(each, combinations.NamedDistribution)]
    return any(kwargs.get(name) or any(getattr(each, name) for each in strategies) for name in names)


def _found() -> str:
    """Of the first GPU, since all of a process are of one kind."""
    import tensorflow as tf

    return f"GPU 0: {described(tf, tf.config.list_physical_devices('GPU')[0])}"
