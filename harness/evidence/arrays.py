"""One tensor as bytes, which may be those of a file that is read when somebody looks at them.

Nothing here imports TensorFlow, and NumPy only when numbers are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from harness.evidence.memory_map import note_access

if TYPE_CHECKING:
    import numpy as np


# These have no native NumPy type; they are stored widened to float32, which is lossless.
_STORED_AS = {"bfloat16": "float32"}


class Array(msgspec.Struct, frozen=True, array_like=True, eq=False):
    """One tensor: its TensorFlow dtype name, shape, and C-ordered bytes, which may be a view of the trace's file.

    Of a RaggedTensor these are its flat values, and `rows` has the lengths of its rows, the outermost dimension first.
    """

    dtype: str
    shape: tuple[int, ...]
    data: memoryview
    rows: tuple[tuple[int, ...], ...] = ()

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the values; bfloat16 comes back widened to float32."""
        import numpy as np

        note_access(self.data.nbytes)
        return np.frombuffer(self.data, dtype=_STORED_AS.get(self.dtype, self.dtype)).reshape(self.shape)

    def __eq__(self, other: object) -> bool:
        """Whether both are of the same dtype and shape, and every bit is the same."""
        import numpy as np

        if not isinstance(other, Array):
            return NotImplemented
        if (self.dtype, self.shape, self.rows) != (other.dtype, other.shape, other.rows):
            return False
        if self.data is other.data:
            return True
        note_access(self.data.nbytes + other.data.nbytes)
        return np.array_equal(np.frombuffer(self.data, np.uint8), np.frombuffer(other.data, np.uint8))

    def __ne__(self, other: object) -> bool:
        """The opposite, which msgspec does not derive."""
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # as of an array

    def check(self) -> None:
        """Raise ValueError or TypeError if the bytes are not those of such an array."""
        import numpy as np

        kind = np.dtype(_STORED_AS.get(self.dtype, self.dtype))
        if kind.hasobject or min(self.shape, default=0) < 0 or kind.itemsize * math.prod(self.shape) != len(self.data):
            raise ValueError(f"{len(self.data)} bytes are no {self.dtype} of shape {self.shape}")

    @property
    def is_floating(self) -> bool:
        """Whether its numbers are real or complex, and not whole."""
        return self.dtype.startswith(("float", "bfloat", "complex"))

    @classmethod
    def of(cls, value: Any, rows: tuple[tuple[int, ...], ...] = ()) -> Array:
        """Encode anything that `numpy.asarray` accepts and that holds numbers."""
        import numpy as np

        array = np.asarray(value)
        name = array.dtype.name
        if name in _STORED_AS:
            array = array.astype(_STORED_AS[name])
        if not array.dtype.isnative:  # its name says nothing of the order of its bytes
            array = array.astype(array.dtype.newbyteorder("="))
        return cls(
            dtype=name, shape=tuple(array.shape), data=memoryview(np.ascontiguousarray(array).tobytes()), rows=rows
        )


def arrays_in(thing: Any) -> Iterator[Array]:
    """Every array within a record, in the order in which it is written."""
    if isinstance(thing, Array):
        yield thing
    elif isinstance(thing, msgspec.Struct):
        yield from (array for name in thing.__struct_fields__ for array in arrays_in(getattr(thing, name)))
    elif isinstance(thing, tuple):
        yield from (array for each in thing for array in arrays_in(each))


def wide(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """In a dtype that has room for what is added to it: float64, or complex128."""
    import numpy as np

    with np.errstate(invalid="ignore"):  # a number with flipped bits may signal that it is none
        return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def are_orders(arrays: Sequence[np.ndarray[Any, Any]]) -> bool:
    """Whether each is an order of the rows that it counts, as `np.random.permutation` gives it."""
    import numpy as np

    return all(
        each.ndim == 1 and each.dtype.kind in "iu" and np.array_equal(np.sort(each), np.arange(len(each)))
        for each in arrays
    )
