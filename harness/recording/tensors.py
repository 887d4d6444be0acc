"""What TensorFlow's and Keras's own objects hold, without importing Keras."""

from __future__ import annotations

from typing import Any

__all__ = ["tensor_of"]


def tensor_of(variable: Any) -> Any:
    """The TensorFlow variable inside a Keras 3 variable; any other object as it is."""
    return variable.value if is_keras_variable(variable) else variable


def is_keras_variable(value: Any) -> bool:
    """Whether it is a variable of Keras 3, which holds one of TensorFlow."""
    kinds = type(value).__mro__
    return any(kind.__module__.partition(".")[0] == "keras" and kind.__name__ == "Variable" for kind in kinds)
