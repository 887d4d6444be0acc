"""The training that a probe verifies."""

from __future__ import annotations

import importlib
from typing import Any

from tools.probing.drawn import named_form
from tools.probing.kinds import KINDS
from tools.probing.kinds.stepping import step_by_step

# What is special about a training, by name.
CIRCUMSTANCES = {
    "even": "replicas divide each batch",
    "uneven": "12, 7 and 3 rows",
    "eager": "without a `tf.function`",
    "half": "in the policy `mixed_bfloat16`",
    "compiled": "by XLA: `tf.function(jit_compile=True)` in the replicas",
}


def train(strategy: Any, record: Any, *, kind: str, package: str, forms: tuple[str, ...], circumstance: str) -> None:
    """Train some forms of a kind's classes, side by side."""
    keras = importlib.import_module(package)
    keras.utils.set_random_seed(1)
    chosen = KINDS[kind]
    known = chosen.forms(keras)
    named = {name: named_form(known, name) for name in forms}
    if chosen.work is not None:
        step_by_step(strategy, record, keras, named, circumstance, work=chosen.work)
    if chosen.train is not None:
        chosen.train(strategy, record, keras, named)
