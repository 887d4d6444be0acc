"""The eps of floating dtypes: the distance from 1 to the next larger number."""

from __future__ import annotations

EPS = {
    "bfloat16": 2.0**-7,
    "float16": 2.0**-10,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
}
"""By TensorFlow's name of the dtype; of a complex one that of its parts."""
