"""NumPy arrays that a generator lends to `tf.data`, and whether they are written over while the program trains.

TensorFlow takes such an array as it is, without a copy. A result is never put into memory that is not TensorFlow's own,
unless a slice of it arrives, as where a batch is split for replicas: a slice does not know whose memory it is
(tensorflow/core/framework/tensor.cc, `SubBuffer`).
"""

from __future__ import annotations

import contextlib
import functools
import math
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.recording.patches import patched
from harness.recording.witness.protocol import WitnessState

if TYPE_CHECKING:
    import numpy as np


_Place = tuple[int, tuple[int, ...], str]

_ARRAYS_MAX = 4096
_BYTES_MAX = 64 << 20
"""So much of what is lent, and still there, is remembered, and looked at again at the end."""


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """See what generators lend in this context, and at its end what has become of it."""
    import tensorflow as tf

    lent = _Lent()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def from_generator(generator: Any, *args: Any, **kwargs: Any) -> Any:
            if not callable(generator):  # TensorFlow says so
                return original(generator, *args, **kwargs)

            def lending(*given: Any) -> Iterator[Any]:
                for element in generator(*given):
                    try:  # in a thread of TensorFlow's, while others train: nothing is silenced here
                        lent.take(element)
                    except Exception as error:  # noqa: BLE001 - never the program's
                        gathered.note(f"what a generator gives: {type(error).__name__}: {error}")
                    yield element

            return original(lending, *args, **kwargs)

        return from_generator

    with patched(tf.data.Dataset, "from_generator", around):
        try:
            yield
        finally:
            with gathered.looking("what generators gave"):
                if (text := lent.text()) is not None:
                    gathered.overwritten[text] = None


@dataclass(frozen=True)
class _Loan:
    """Where an array lies in an array of the program's, which is not kept alive, and what was in it."""

    owner: weakref.ref[np.ndarray[Any, Any]]
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    before: int

    @property
    def size(self) -> int:
        """In bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_written_over(self) -> bool:
        """Whether it holds something else now; False if it is there no longer."""
        owner = self.owner()
        return owner is not None and zlib.crc32(_bytes(owner)[self.offset : self.offset + self.size]) != self.before


@dataclass
class _Lent:
    """What was lent first, by its place in memory: a program may well change its arrays before it lends them again."""

    loans: dict[_Place, _Loan] = field(default_factory=dict)
    size: int = 0

    def take(self, element: Any) -> None:
        """Remember the arrays of an element, but those that are known, as of an earlier epoch."""
        for array in _arrays(element):
            place, owner = (_address(array), array.shape, array.dtype.str), _owner(array)
            if place in self.loans or not owner.flags.c_contiguous:
                continue
            if len(self.loans) == _ARRAYS_MAX or self.size + array.nbytes > _BYTES_MAX:
                continue
            gone = weakref.ref(owner, functools.partial(self._forget, place))
            offset = _address(array) - _address(owner)
            self.loans[place] = _Loan(gone, offset, array.shape, array.dtype, zlib.crc32(_bytes(array)))
            self.size += array.nbytes

    def _forget(self, place: _Place, owner: Any) -> None:
        """An array of the program's is gone: others may lie where it lay."""
        if (loan := self.loans.get(place)) is not None and loan.owner is owner:
            del self.loans[place]
            self.size -= loan.size

    def text(self) -> str | None:
        """What is to be said of those that were written over, None if none was."""
        loans = list(self.loans.values())
        changed = [loan for loan in loans if loan.is_written_over]
        if not changed:
            return None
        one = changed[0]
        return (
            f"{len(changed)} of {len(loans)} NumPy arrays that a generator lent to tf.data were written over, for "
            f"example one of shape {one.shape}, {one.dtype}"
        )


def _arrays(element: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Of an element those that TensorFlow takes without a copy."""
    import numpy as np

    if isinstance(element, Mapping):
        element = tuple(element.values())
    if isinstance(element, tuple):
        for each in element:
            yield from _arrays(each)
    elif isinstance(element, np.ndarray) and _is_lent(element):
        yield element


def _is_lent(array: np.ndarray[Any, Any]) -> bool:
    return bool(array.size) and array.dtype.kind in "biufc" and array.flags.c_contiguous


def _owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _bytes(array: np.ndarray[Any, Any]) -> memoryview:
    import numpy as np

    return array.reshape(-1).view(np.uint8).data
