"""TensorFlow's random operations, by their functions in its generated modules.

All Python code calls these, eagerly and in a graph.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

SHUFFLES = ("random_shuffle", "stateless_shuffle")
_MODULES = (
    "gen_random_ops",
    "gen_stateless_random_ops",
    "gen_stateless_random_ops_v2",
    "gen_stateful_random_ops",
    "gen_candidate_sampling_ops",
    "gen_image_ops",
)
_NO_DRAWS = re.compile(r"_get_alg|_get_key_counter|_skip|_grad$|compute_accidental_hits|_eager_fallback$|^_")
_DRAWS = re.compile(
    r"random|multinomial|truncated_normal|stateful_|non_deterministic|candidate_sampler|shuffle|sample_"
)


def random_operations() -> Iterator[tuple[Any, str]]:
    """The functions of all random operations, each where it is defined."""
    for place in _MODULES:
        module = importlib.import_module(f"tensorflow.python.ops.{place}")
        for name, function in list(vars(module).items()):
            ours = inspect.isfunction(function) and name.islower() and _DRAWS.search(name)
            if ours and not _NO_DRAWS.search(name):
                yield module, name
