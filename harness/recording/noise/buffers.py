"""The buffer protocol of a type written in C, taken over for a while.

`numpy.asarray(t)`, and all of NumPy that is given a tensor, asks for the buffer of its memory before it asks for
`__array__`. The only place where that can be intercepted is the type's table: `PyTypeObject.tp_as_buffer`, whose place
has been the same in all versions of Python that Lockstep supports (CPython, `Include/cpython/object.h`). Instead of the
tensor's own memory, that of another array is exported, which CPython calls re-exporting.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["exporting"]

_GETBUFFER = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_POINTER = ctypes.sizeof(ctypes.c_void_p)
# The fields before it are pointers or as large as pointers: three of the head of an object with a size, then
# tp_name, tp_basicsize, ..., tp_setattro, 17 of them.
_BASICSIZE, _AS_BUFFER = 4 * _POINTER, 20 * _POINTER


@contextlib.contextmanager
def exporting(kind: type, array_of: Callable[[Any], Any]) -> Iterator[None]:
    """Within this context, instances of a type export the buffers of the arrays that are made of them.

    If the type's table does not look as it should, nothing is changed.

    Args:
        kind: a type with a buffer.
        array_of: what makes an array of an instance. If it raises, the instance has no buffer, and NumPy asks it for
            `__array__`.
    """
    slot = _slot(kind)
    if slot is None:
        yield
        return
    before = slot.value
    request = _GETBUFFER(("PyObject_GetBuffer", ctypes.pythonapi))

    def getbuffer(instance: Any, view: int, flags: int) -> int:
        try:
            import numpy as np

            return int(request(np.asarray(array_of(instance)), view, flags))
        except Exception:  # noqa: BLE001 - nothing may be raised into C; NumPy goes on with `__array__`
            return -1

    callback = _GETBUFFER(getbuffer)
    _kept.append(callback)  # a view that is made now may be asked for later
    slot.value = ctypes.cast(callback, ctypes.c_void_p).value
    try:
        yield
    finally:
        slot.value = before


_kept: list[Any] = []


def _slot(kind: type) -> ctypes.c_void_p | None:
    """Where the type's `bf_getbuffer` is kept."""
    usual = sys.implementation.name == "cpython" and not hasattr(sys, "gettotalrefcount")
    if not usual or ctypes.c_ssize_t.from_address(id(kind) + _BASICSIZE).value != kind.__basicsize__:
        return None
    table = ctypes.c_void_p.from_address(id(kind) + _AS_BUFFER).value
    return None if table is None else ctypes.c_void_p.from_address(table)
