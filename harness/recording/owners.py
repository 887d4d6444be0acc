"""Whose a variable is that is being made: an optimizer's, a layer's, a metric's, or the program's own."""

from __future__ import annotations

import inspect

METRIC = "a metric"
BATCHES, SAVES = "a count of batches", "a count of saves"

# The classes of Keras 3, tf_keras and TensorFlow that make variables of their own, and what a sentence calls them.
_OWNERS = {
    "Optimizer": "an optimizer",
    "BaseOptimizer": "an optimizer",
    "_BaseOptimizer": "an optimizer",
    "OptimizerV2": "an optimizer",
    "Metric": METRIC,
    "SeedGenerator": "a random generator",
    "Generator": "a random generator",
    "Model": "a model",
    "Layer": "a layer",
}
_COUNTS = {
    "_create_counter_variable": BATCHES,
    "_maybe_create_save_counter": SAVES,
    "_initialize_for_mirrored_and_multi_worker_mirrored": SAVES,
}
"""By the method that makes it. tf_keras's `Model` counts the batches that `fit`, `evaluate` and `predict` have seen.
It neither saves nor uses that. `tf.train.Checkpoint` counts how often it was saved, from the first time on;
`PreemptionCheckpointHandler` the steps before its last save.
"""
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
        known = (kind.__name__ for kind in type(caller).__mro__ if kind.__module__.partition(".")[0] in _PACKAGES)
        for name in known:
            if (found := _COUNTS.get(frame.f_code.co_name) or _OWNERS.get(name)) is not None:
                return found
        frame = frame.f_back
    return PROGRAM
