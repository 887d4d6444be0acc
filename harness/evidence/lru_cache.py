"""What was asked for last, as far as it is small: in front of what can be made again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class LruCache(Generic[_Key, _Value]):
    """Keeps the values that were used last, of so many bytes together, and the very last one whatever its size.

    Args:
        limit: in bytes.
        make: the value of a key.
        size: bytes of a value.
    """

    def __init__(self, limit: int, make: Callable[[_Key], _Value], size: Callable[[_Value], int]) -> None:
        self._limit, self._make, self._size = limit, make, size
        self._kept: OrderedDict[_Key, _Value] = OrderedDict()
        self._bytes = 0

    def __getitem__(self, key: _Key) -> _Value:
        """The value, made now if it is not there any more."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        value = self._make(key)
        self._bytes += self._size(value)
        while self._kept and self._bytes > self._limit:
            self._bytes -= self._size(self._kept.popitem(last=False)[1])
        self._kept[key] = value
        return value
