"""Replaces functions of TensorFlow's for a while, in a way that AutoGraph does not notice."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock


@contextlib.contextmanager
def patched(owner: Any, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Replace a function of TensorFlow's by what `around` makes of it.

    AutoGraph leaves the new one as it is, since it bears the module's name, and converts what that calls as before.
    """
    original = getattr(owner, name)
    new: Any = functools.wraps(original)(around(original))
    if isinstance(inspect.getattr_static(owner, name), staticmethod):
        new = staticmethod(new)
    with mock.patch.object(owner, name, new):
        yield
