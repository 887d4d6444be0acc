"""What a program may hand to `record`, and the one sentence that refuses anything else, at the call and in the task."""

from __future__ import annotations

import contextlib
import enum
import numbers
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


VALUES = (
    "numbers of at most 64 bits (complex ones of 128): a Python number, NumPy array, tensor, PerReplica, "
    "IndexedSlices, RaggedTensor or Keras metric"
)
VARIABLES = "TensorFlow and Keras variables of numbers, in lists or in a mapping from name to variable"
EXAMPLES = "integer ids: numbers, arrays, tensors or a PerReplica of them, or a mapping from task to ids"

# float8 and the integers of 4 bits have no place in NumPy itself, and so none in a file that any process can read.
_DTYPES = frozenset(
    ["bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
_CASTS = {
    "float8": "tf.cast it to float32, which loses nothing",
    "float128": "cast it to float64",
    "longdouble": "cast it to float64",
    "complex256": "cast it to complex128",
    "clongdouble": "cast it to complex128",
    "int4": "tf.cast it to int8, which loses nothing",
    "uint4": "tf.cast it to uint8, which loses nothing",
    "SparseTensor": "give tf.sparse.to_dense(...) of it",
    "KerasTensor": "it stands for what a model will compute; give what a call with data has returned",
    "generator": "a generator can be read only once; give a list",
}


@dataclass(frozen=True)
class ValuePlace:
    """Where in a call something stands.

    Attributes:
        call: such as `record.step`.
        what: such as `loss` or `gradients['w']`.
        accepted: what may stand there.
    """

    call: str
    what: str
    accepted: str = VALUES

    def entry(self, key: Any) -> ValuePlace:
        """An item of what stands here."""
        return replace(self, what=f"{self.what}[{key!r}]")

    def refused(self, got: str, why: str = "") -> TypeError:
        """The error for something that is not accepted here; `why` says what to do instead, if that is known."""
        return TypeError(
            f"{self.call} got {got} as {self.what}{f': {why}' if why else ''}; accepted are {self.accepted}"
        )


def value_text(value: Any) -> str:
    """What something is, as a sentence may call it: its type, and the dtype of its elements if it has one."""
    name = type(value).__name__
    name = {"EagerTensor": "tensor", "ResourceVariable": "variable", "ndarray": "array"}.get(name, name)
    dtype = getattr(value, "dtype", None) if hasattr(value, "shape") else None
    shown = getattr(dtype, "name", None) or (dtype if isinstance(dtype, str) else None)
    article = "an" if name[0] in "aeiouAEIO" else "a"
    return f"{article} {name}{f' of {shown}' if shown and shown != name else ''}"


def key_of(key: Any, place: ValuePlace) -> str:
    """The name that a key of a mapping stands for.

    Raises:
        TypeError: it has no text that is the same in every process.
    """
    plain = isinstance(key, (str, numbers.Number, enum.Enum))
    if not plain and not (isinstance(key, tuple) and all(isinstance(part, (str, numbers.Number)) for part in key)):
        names = replace(place, what=f"a name in {place.what}", accepted="strings and numbers")
        raise names.refused(value_text(key), "its text may differ from process to process")
    name = str(key)
    if not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise replace(place, what=f"a name in {place.what}", accepted="names that UTF-8 can write").refused(repr(name))
    return name


def array_of(value: Any, place: ValuePlace) -> np.ndarray[Any, Any]:
    """The numbers of something that is no tensor of TensorFlow (any more), as an array.

    Raises:
        TypeError: they are no numbers, or such as no trace can hold.
    """
    import numpy as np

    if isinstance(value, np.ma.MaskedArray):
        raise place.refused("a masked array", "its mask would be lost; give value.filled(...)")
    if isinstance(value, (Mapping, str, bytes)):
        raise place.refused(value_text(value))
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        why = _cast(type(value).__name__) or f"NumPy cannot read it ({reason})"
        raise place.refused(value_text(value), why) from error
    if array.dtype.name not in _DTYPES:
        raise _no_numbers(value, array, place)
    return array


def check_dtype(value: Any, dtype: str, place: ValuePlace) -> None:
    """Refuse a tensor or variable of a dtype that holds no numbers, before anything is read from it.

    Raises:
        TypeError: as in the sentence.
    """
    if dtype not in _DTYPES:
        raise place.refused(value_text(value), _cast(dtype))


def _no_numbers(value: Any, array: np.ndarray[Any, Any], place: ValuePlace) -> TypeError:
    import numpy as np

    if array.dtype.kind != "O":
        return place.refused(value_text(value if array.ndim == 0 else array), _cast(array.dtype.name))
    for index in np.ndindex(array.shape):
        item: Any = array[index]
        where = f" at {list(index)}" if index else ""
        if isinstance(item, int) and not -(2**63) <= item < 2**64:
            return place.refused(f"the integer {_short(item)}{where}", "it does not fit into 64 bits")
        if not isinstance(item, (int, float, complex)):
            inside = f"{value_text(value)} with {value_text(item)}{where}" if index else value_text(item)
            return place.refused(inside, _cast(type(item).__name__))
    return place.refused(value_text(array))


def _short(number: int) -> str:
    digits = str(number) if number.bit_length() < 1000 else f"of {number.bit_length()} bits"
    return digits if len(digits) <= 40 else f"{digits[:20]}..."


def _cast(name: str) -> str:
    return next((text for start, text in _CASTS.items() if name.startswith(start)), "")


@contextlib.contextmanager
def checked_call(call: str) -> Iterator[None]:
    """Refuse a call from where nothing is computed yet, or by each replica for itself.

    Raises:
        TypeError: it is made inside a `tf.function`, or inside `strategy.run`.
    """
    try:
        _check_outside(call)
        yield
    except (TypeError, ValueError) as error:
        # Tells AutoGraph to leave the message as it is: otherwise it begins with a traceback of the function.
        error.ag_pass_through = True  # type: ignore[union-attr]
        raise


def _check_outside(call: str) -> None:
    import tensorflow as tf

    if tf.compat.v1.get_default_graph().building_function:
        raise TypeError(
            f"{call} was called inside a tf.function, where tensors have no values yet, and would be called once "
            "for all steps: call it outside, with what the function returned"
        )
    if tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context():
        raise TypeError(
            f"{call} was called inside strategy.run, by each replica for itself: call it outside, once for each "
            "step, with what strategy.run returned"
        )
