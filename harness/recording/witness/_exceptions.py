"""Calls that raise: at the end of their data, as they are meant to, or in the middle of a step."""

from __future__ import annotations

__all__ = ["ends_data", "said_of"]


def ends_data(error: Exception) -> bool:
    """Whether a function has come to the end of its iterator, as it is meant to."""
    import tensorflow as tf

    return isinstance(error, (StopIteration, tf.errors.OutOfRangeError))


def said_of(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0][:200]
    # The first line may be no more than where TensorFlow was: "Graph execution error:".
    what = "" if text.endswith(":") else f" ({text})"
    return (
        f"a step raised {type(error).__name__}, after which the program went on: what it had changed by then stays, "
        f"and it counts as no step{what}"
    )
