"""TF32: what the tensor cores of NVIDIA's GPUs make of products of float32, carried out on a CPU.

The factors are rounded to 10 bits of mantissa, to nearest and ties to even, and their products summed in float32
(NVIDIA, "NVIDIA A100 Tensor Core GPU Architecture", 2020, "TensorFloat-32"). What this changes in a run of the
reference is how far a right training with TF32 may be from one in float32.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched

# float32 has 23 bits of mantissa.
_DROPPED = 13
# The functions of TensorFlow's that cuBLAS and cuDNN compute, which gradients are made of too, and their two factors.
_PRODUCTS: dict[str, dict[str, tuple[int, ...]]] = {
    "gen_math_ops": {
        "mat_mul": (0, 1),
        "batch_mat_mul": (0, 1),
        "batch_mat_mul_v2": (0, 1),
        "batch_mat_mul_v3": (0, 1),
    },
    "gen_linalg_ops": {"einsum": (0,)},
    "gen_nn_ops": {
        "conv2d": (0, 1),
        "conv2d_backprop_filter": (0, 2),
        "conv2d_backprop_input": (1, 2),
        "conv3d": (0, 1),
        "conv3d_backprop_filter_v2": (0, 2),
        "conv3d_backprop_input_v2": (1, 2),
    },
}
_NAMES = {
    "mat_mul": ("a", "b"),
    "einsum": ("inputs",),
    "conv2d_backprop_filter": ("input", "out_backprop"),
    "conv2d_backprop_input": ("filter", "out_backprop"),
    "conv3d_backprop_filter_v2": ("input", "out_backprop"),
    "conv3d_backprop_input_v2": ("filter", "out_backprop"),
}


def round_to_tf32(x: Any) -> Any:
    """A float32 tensor of the same shape with 10 bits of mantissa; its gradient passes as through an identity."""
    import tensorflow as tf

    bits = tf.bitcast(tf.stop_gradient(x), tf.int32)
    odd = tf.bitwise.bitwise_and(tf.bitwise.right_shift(bits, _DROPPED), 1)
    up = bits + (2 ** (_DROPPED - 1) - 1) + odd
    rounded = tf.bitcast(tf.bitwise.bitwise_and(up, -(2**_DROPPED)), tf.float32)
    # The difference is exact, since both are within a factor of two of each other.
    return x + tf.stop_gradient(tf.where(tf.math.is_finite(rounded), rounded - x, tf.zeros_like(x)))


@contextlib.contextmanager
def rounding_products() -> Iterator[None]:
    """Round the factors of every product and convolution of float32 in this context."""
    import importlib

    with contextlib.ExitStack() as stack:
        for module, products in _PRODUCTS.items():
            owner = importlib.import_module(f"tensorflow.python.ops.{module}")
            for name, places in products.items():
                stack.enter_context(patched(owner, name, _around(places, _NAMES.get(name, _default(name)))))
        yield


def _default(name: str) -> tuple[str, str]:
    return ("input", "filter") if name.startswith("conv") else ("x", "y")


def _around(places: tuple[int, ...], names: tuple[str, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            given = [_rounded(each) if at in places else each for at, each in enumerate(args)]
            return original(
                *given, **{name: _rounded(each) if name in names else each for name, each in options.items()}
            )

        return call

    return around


def _rounded(factor: Any) -> Any:
    import tensorflow as tf

    if isinstance(factor, (list, tuple)):
        return [_rounded(each) for each in factor]
    return round_to_tf32(tf.convert_to_tensor(factor)) if getattr(factor, "dtype", None) == tf.float32 else factor
