"""Datasets whose functions draw the same numbers for each example, so that what they give follows from no draw.

What workers draw for their examples, such as noise on images, hides from a comparison whether these come with their
own labels. Without it they are one device's, bit for bit, or the program mistakes them.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.default_seeds import FunctionTracing
from harness.recording.patches import patched
from harness.recording.random_operations import SHUFFLES, random_operations

_NUMBER, _STEP = 0.37, 0.618
"""Of any distribution over floating numbers, uniform ones between 0 and 1 included; a function's next draw has another
number, so that labels for which it draws once more are not those of the features.
"""


@contextlib.contextmanager
def fixed_draws(wanted: bool) -> Iterator[None]:
    """Within this context each random operation in a function of a dataset gives one number, and a shuffle no order.

    Operations with several results draw as ever. So do all where it is not `wanted`.
    """
    if not wanted:
        yield
        return
    from tensorflow.python.data.ops.structured_function import StructuredFunctionWrapper

    tracing = FunctionTracing()
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(StructuredFunctionWrapper, "__init__", tracing.noted))
        for module, name in random_operations():
            around = _unshuffled if name in SHUFFLES else _fixed
            stack.enter_context(patched(module, name, around(tracing)))
        yield


def _fixed(tracing: FunctionTracing) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def draw(*args: Any, **options: Any) -> Any:
            import tensorflow as tf

            found = original(*args, **options)
            if not tracing.function or not isinstance(found, tf.Tensor):
                return found
            least = signature.bind(*args, **options).arguments.get("minval", 0)
            fraction = (_NUMBER + _STEP * tracing.draws) % 1
            tracing.draws += 1
            number = tf.cast(fraction if found.dtype.is_floating else least, found.dtype)
            fixed = tf.fill(tf.shape(found), number)
            fixed.set_shape(found.shape)
            return fixed

        return draw

    return around


def _unshuffled(tracing: FunctionTracing) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def shuffle(value: Any, *args: Any, **options: Any) -> Any:
            import tensorflow as tf

            return tf.convert_to_tensor(value) if tracing.function else original(value, *args, **options)

        return shuffle

    return around
