"""Arguments of the Python API, checked before anything starts: one of another kind is told in one line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from simulator.errors import UsageError, meant


def check_kind(name: str, value: object, kind: type | tuple[type, ...], form: str) -> None:
    """Fail if an argument is of another kind.

    Args:
        name: of the argument.
        value: what was given for it.
        kind: what it may be. A bool is no number.
        form: how it is written, for the error.

    Raises:
        UsageError: it is something else.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise UsageError(f"{name}={textwrap.shorten(repr(value), 80)} is not understood; write {name}={form}")


def check_names(what: str, given: Iterable[str], known: Iterable[str], others: Iterable[str] = ()) -> None:
    """Fail if something is given that there is not.

    Args:
        what: takes it, for the error.
        given: names of arguments.
        known: those that it may have.
        others: that it has besides, one of which may be meant.

    Raises:
        UsageError: one is unknown.
    """
    for name in sorted(set(given) - set(known)):
        every = sorted({*known, *others})
        raise UsageError(
            f"{what} has no argument {name}; {meant(name, every) or 'it takes ' + ', '.join(every)}".strip()
        )


def check_environment(env: Any) -> None:
    """Fail if these are no environment variables.

    Raises:
        UsageError: they are no mapping from text to text.
    """
    check_kind("env", env, Mapping, '{"NAME": "value"}')
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError(f"env has {name!r}: {value!r}; environment variables are text, such as {{{name!r}: '1'}}")
