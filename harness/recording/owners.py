"""Whose a variable is that is being made: an optimizer's, a layer's, a metric's, or the program's own."""

from __future__ import annotations

import inspect

METRIC, CHECKPOINT = "a metric", "a checkpoint"

# The classes of Keras 3, tf_keras and TensorFlow that make variables of their own, and what a sentence calls them.
_OWNERS = {
    "Optimizer": "an optimizer",
    "BaseOptimizer": "an optimizer",
    "_BaseOptimizer": "an optimizer",
    "OptimizerV2": "an optimizer",
    "Metric": METRIC,
    "SeedGenerator": "a random generator",
    "Generator": "a random generator",
    "Checkpoint": CHECKPOINT,
    "Model": "a model",
    "Layer": "a layer",
}
_COUNTS = "_create_counter_variable"
"""Of tf_keras's `Model`: batches that `fit`, `evaluate` and `predict` have seen, which it neither saves nor uses."""
_DEFERRED = "_deferred_initialize"
"""Of Keras 3's `Variable`, long after who wanted it: of those that are summed on read these are metrics."""
_PACKAGES = ("keras", "tf_keras", "tensorflow")
PROGRAM = "the program"


def owner_of() -> str:
    """Whose constructor or method is making a variable: the nearest caller that is a known class of a known package."""
    frame = inspect.currentframe()
    while frame is not None:
        caller = frame.f_locals.get("self")
        if frame.f_code.co_name == _DEFERRED and getattr(caller, "synchronization", None) == "on_read":
            return METRIC
        for kind in type(caller).__mro__:
            if kind.__name__ in _OWNERS and kind.__module__.partition(".")[0] in _PACKAGES:
                return "a count of batches" if frame.f_code.co_name == _COUNTS else _OWNERS[kind.__name__]
        frame = frame.f_back
    return PROGRAM
