"""Seeds of tf_keras before 2.19, which asks a seeded generator for a whole number up to `1e9`, a float.

From Python 3.12 on `random.Random.randint` takes no floats, so that every layer raises once a seed was set, which is
what Lockstep does in every run (tf_keras/src/backend.py:2032 of 2.18).
"""

from __future__ import annotations

import random
import sys
from types import ModuleType

__all__ = ["mend_seeds"]

_MENDED = (2, 19)
_STRICT = (3, 12)


class _Whole(random.Random):
    """Takes floats that are whole numbers, and draws what it would draw anyway."""

    def randint(self, a: float, b: float) -> int:
        """A whole number from `a` to `b`, both included."""
        return super().randint(int(a), int(b))


def mend_seeds(tf_keras: ModuleType, seed: int, python: tuple[int, ...] = sys.version_info[:2]) -> None:
    """Give an old tf_keras a generator that it can ask, after `set_random_seed`.

    Args:
        tf_keras: the package.
        seed: that was set.
        python: the version of Python.
    """
    if python < _STRICT or tuple(map(int, tf_keras.__version__.split(".")[:2])) >= _MENDED:
        return
    backend = sys.modules[f"{tf_keras.__name__}.src.backend"]
    backend._SEED_GENERATOR.generator = _Whole(seed)  # noqa: SLF001 - where `set_random_seed` has put its own
