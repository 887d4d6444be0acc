"""Which variables count updates, by their names."""

from __future__ import annotations

COUNTERS = ("updates", "global_step", "iterations", "iteration", "iter")
"""Last name components of a variable that counts updates, most explicit first; Keras 3 and tf_keras write `iteration`,
legacy tf_keras optimizers `iter`.
"""


def last_component(name: str) -> str:
    """`iteration` of `adam/iteration:0#2`."""
    return name.rpartition("/")[2].partition(":")[0].partition("#")[0]


def is_counter(name: str) -> bool:
    """Whether a variable of this name counts updates, if it is an integer scalar."""
    return last_component(name) in COUNTERS
