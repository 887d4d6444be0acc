"""Notes which of some uses a program makes of TensorFlow and Keras, and at which of its lines."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any
from unittest import mock

from harness.evidence.uses import Use, Used, write_uses
from harness.recording.client import Assignment, as_here, folder_of, task_name
from harness.recording.watch.places import Places
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase

_PACKAGES = {"tf": "tensorflow"}


def run_noting(
    run: Callable[..., dict[str, Any]],
    uses: Sequence[Use],
    program: Program,
    case: StrategyCase,
    assignment: Assignment,
) -> dict[str, Any]:
    """Run the program as `run` does, and leave which of these uses it made, also where it fails."""
    seen: dict[int, str] = {}
    try:
        with _noted(uses, seen):
            return run(program, case, assignment)
    finally:
        write_uses(
            folder_of(as_here(assignment)), task_name(), [Used(uses[number], where) for number, where in seen.items()]
        )


def target_of(name: str) -> tuple[Any, str] | None:
    """The owner and the attribute that a public name stands for, a class's constructor; None where it is missing."""
    package, *rest, last = name.split(".")
    try:
        owner: Any = import_module(_PACKAGES.get(package, package))
        for each in rest:
            owner = getattr(owner, each)
        found = getattr(owner, last)
    except (ImportError, AttributeError):
        return None
    if not isinstance(found, type):
        return owner, last
    # A named tuple is made by `__new__`; whoever gives it another `__init__` may no longer call that of `object`.
    return found, "__new__" if inspect.getattr_static(found, "__init__") is object.__init__ else "__init__"


@contextlib.contextmanager
def _noted(uses: Sequence[Use], seen: dict[int, str]) -> Iterator[None]:
    """Within it `seen` has by the number of a use the line that made it first."""
    by_name: dict[str, dict[int, Use]] = {}
    for number, use in enumerate(uses):
        by_name.setdefault(use.of, {})[number] = use
    places = Places()
    with contextlib.ExitStack() as stack:
        for name, wanted in by_name.items():
            if (target := target_of(name)) is not None:
                owner, attribute = target
                new = _noting(getattr(owner, attribute), wanted, seen, places)
                is_static = isinstance(inspect.getattr_static(owner, attribute), staticmethod)
                stack.enter_context(mock.patch.object(owner, attribute, staticmethod(new) if is_static else new))
        yield


def _noting(original: Any, wanted: Mapping[int, Use], seen: dict[int, str], places: Places) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        if missing := wanted.keys() - seen.keys():
            arguments = _arguments(signature, args, options)
            for number in missing:
                with contextlib.suppress(Exception):  # whatever an argument is, the program goes on
                    if wanted[number].fits(arguments):
                        seen[number] = places.line() or ""
        return original(*args, **options)

    # Keras asks constructors for the names of their arguments.
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _arguments(signature: inspect.Signature, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """By name, also those that are passed on."""
    try:
        found = dict(signature.bind_partial(*args, **options).arguments)
    except TypeError:  # the call itself tells of it
        return {}
    return {**found, **options}
