"""What of a library's a program uses: a class that it builds or a function that it calls, with which arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

_SUFFIX = ".uses"


class Use(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One use, as the registry of known issues names it.

    Attributes:
        of: the public name of a class or function, such as `keras.layers.Dropout` or `keras.Model.fit`.
        given: what arguments have to be, by name: a value; `set`, which is neither None nor False; `>N`; `several`,
            outputs by name or place; `a function`; `of unknown length`, `a generator` and `an array`, for data; `not
            built`, for an object that is used within a `tf.function` first; `not False`, also where it is not given; or
            a pattern of `fnmatch` for a text, or for the name of an enumeration's member.
    """

    of: str
    given: Mapping[str, bool | str] = {}

    def fits(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments is such a use."""
        return all(_fits(wanted, arguments.get(name)) for name, wanted in self.given.items())


class Used(msgspec.Struct, frozen=True):
    """A use that was seen, and its line: `train.py:12`, empty where it is not the program's own."""

    use: Use
    where: str


def _fits(wanted: bool | str, value: Any) -> bool:
    if isinstance(wanted, bool):
        return value is wanted
    if wanted.startswith(">"):
        return isinstance(value, int) and not isinstance(value, bool) and value > int(wanted[1:])
    if wanted in _PREDICATES:
        return _PREDICATES[wanted](value)
    text = value.name if isinstance(value, Enum) else value
    return isinstance(text, str | Path) and fnmatchcase(str(text), wanted)


def _is_function(value: Any) -> bool:
    """Written by the program: what Keras has itself gives a loss for each example."""
    return callable(value) and not isinstance(value, type) and hasattr(value, "__code__")


def _is_of_unknown_length(value: Any) -> bool:
    if hasattr(value, "__next__"):
        return True
    cardinality = getattr(value, "cardinality", None)
    return callable(cardinality) and int(cardinality()) < -1


def _is_not_built(value: Any) -> bool:
    import tensorflow as tf

    return not getattr(value, "built", True) and not tf.executing_eagerly()


_PREDICATES: dict[str, Callable[[Any], bool]] = {
    "set": lambda value: value is not None and value is not False,
    "several": lambda value: isinstance(value, list | tuple | dict) and len(value) > 1,
    "a function": _is_function,
    "a generator": lambda value: hasattr(value, "__next__"),
    "an array": lambda value: hasattr(value, "__array__"),
    "not False": lambda value: value is not False,
    "of unknown length": _is_of_unknown_length,
    "not built": _is_not_built,
}


def write_uses(folder: Path, task: str, uses: list[Used]) -> None:
    """Leave what a task has used in a folder."""
    (folder / f"{task.replace(':', '-')}{_SUFFIX}").write_bytes(msgspec.json.encode(uses))


def read_uses(folder: Path) -> list[Used]:
    """What all tasks have left below it, each once."""
    found = (msgspec.json.decode(path.read_bytes(), type=list[Used]) for path in sorted(folder.rglob(f"*{_SUFFIX}")))
    every: list[Used] = []
    for used in (each for uses in found for each in uses):
        if used not in every:
            every.append(used)
    return every
