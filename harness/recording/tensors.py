"""What TensorFlow's and Keras's own objects hold, without importing Keras."""

from __future__ import annotations

from typing import Any


def tensor_of(variable: Any) -> Any:
    """The TensorFlow variable inside a Keras 3 variable, or one of tf_keras that casts; any other object as it is."""
    if is_keras_variable(variable):
        return variable.value
    return variable._variable if _casts(variable) else variable  # noqa: SLF001 - nothing public tells


def _casts(value: Any) -> bool:
    """Whether it is a variable of tf_keras's that is read in the dtype of the layer's policy."""
    return any(kind.__name__ == "AutoCastVariable" for kind in type(value).__mro__)


def is_keras_variable(value: Any) -> bool:
    """Whether it is a variable of Keras 3, which holds one of TensorFlow."""
    kinds = type(value).__mro__
    return any(kind.__module__.partition(".")[0] == "keras" and kind.__name__ == "Variable" for kind in kinds)
