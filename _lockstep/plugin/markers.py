"""What the markers of the fixtures take, and a marker that stands at a test which does not use its fixture."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Collection
from typing import Any, NoReturn

import pytest

from _lockstep.plugin.needed import need_lockstep

_FIXTURES = {"cluster": "cluster", "strategies": "strategy", "scripts": "script"}
# As `simulator.topology.JOBS`, which is not imported in every session of pytest.
_SHAPE = ("chief", "worker", "ps", "evaluator", "devices")
_NAMES = 'strategies takes names, and more names for --profile=full as full=(...); write strategies("mirrored-2")'
_COMMANDS = 'scripts takes commands without python, such as "train.py --epochs 1"'


class WrongMarker(Exception):
    """A marker that Lockstep does not take; `refuse` says it."""


def refuse(node: pytest.Item, said: object) -> NoReturn:
    """Say what is wrong with a test, where that is, and nothing of how it was found."""
    path, line, _ = node.location
    raise pytest.fail.Exception(f"{path}:{(line or 0) + 1}: {said}", pytrace=False) from None


def shape_of(marker: pytest.Mark | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of `Topology`, and the other ones of `Cluster`.

    Raises:
        WrongMarker: there is none, or it has something that they do not take.
    """
    from simulator import Cluster

    if marker is None:
        raise WrongMarker("the fixture `cluster` needs its shape; write @pytest.mark.cluster(worker=2)")
    if marker.args:
        given = ", ".join(map(repr, marker.args))
        raise WrongMarker(
            f"@pytest.mark.cluster takes each number with the name of its job, not {given}; write "
            "@pytest.mark.cluster(worker=2)"
        )
    shape = {name: value for name, value in marker.kwargs.items() if name in _SHAPE}
    options = {name: value for name, value in marker.kwargs.items() if name not in _SHAPE}
    if unknown := options.keys() - inspect.signature(Cluster).parameters.keys():
        raise WrongMarker(
            f"@pytest.mark.cluster has no {', '.join(sorted(unknown))}; it takes {', '.join(_SHAPE)}, and the "
            "options of simulator.Cluster"
        )
    return shape, options


def cases_of(marker: pytest.Mark, hardware: str) -> list[Any]:
    """A parameter for each strategy; one that is under `full=` alone is marked so.

    Raises:
        WrongMarker: it names none, or one that there is not.
    """
    full = marker.kwargs.get("full", ())
    several = isinstance(full, Collection) and not isinstance(full, str)
    if not marker.kwargs.keys() <= {"full"} or not several or not (marker.args or full):
        raise WrongMarker(_NAMES)
    if any(isinstance(name, list | tuple | set) for name in (*marker.args, *full)):
        raise WrongMarker(f"each name stands by itself, not in a list: {_NAMES}")
    need_lockstep()
    from harness.subject.strategies import strategy_case
    from simulator import UsageError

    later = dict.fromkeys(name for name in full if name not in marker.args)
    try:
        now = [pytest.param(case := strategy_case(name, hardware), id=case.name) for name in marker.args]
        return now + [
            pytest.param(case := strategy_case(name, hardware), id=case.name, marks=pytest.mark.full) for name in later
        ]
    except UsageError as error:
        raise WrongMarker(str(error)) from error


def commands_of(marker: pytest.Mark) -> list[list[str]]:
    """The command of each script.

    Raises:
        WrongMarker: it names none, or has something else.
    """
    texts = all(isinstance(each, str) and each.strip() for each in marker.args)
    if marker.kwargs or not marker.args or not texts:
        raise WrongMarker(_COMMANDS)
    try:
        return [["python", *shlex.split(each)] for each in marker.args]
    except ValueError as error:  # a quotation without an end
        raise WrongMarker(f"{_COMMANDS}: {error}") from error


def check_used(metafunc: pytest.Metafunc) -> None:
    """Fail where a test has a marker of its own whose fixture it does not use; one of its class may be for others.

    Raises:
        WrongMarker: it says which.
    """
    for marker in metafunc.definition.own_markers:
        fixture = _FIXTURES.get(marker.name, "")
        if fixture and fixture not in metafunc.fixturenames and _is_ours(marker) and not _asks_itself(metafunc):
            raise WrongMarker(
                f"@pytest.mark.{marker.name} is for the fixture `{fixture}`, which {metafunc.function.__name__} does "
                f"not use: give it an argument `{fixture}`, or remove the marker"
            )


def _is_ours(marker: pytest.Mark) -> bool:
    """Whether its arguments are of Lockstep: another project may have a marker of that name."""
    if marker.name == "cluster":
        return not marker.kwargs.keys().isdisjoint(_SHAPE)
    return bool(marker.kwargs.keys() <= {"full"} and (marker.args or marker.kwargs))


def _asks_itself(metafunc: pytest.Metafunc) -> bool:
    """Whether the test, or a fixture that is not pytest's, may call `request.getfixturevalue`."""
    if "request" in inspect.signature(metafunc.function).parameters:
        return True
    found = metafunc._arg2fixturedefs.values()  # noqa: SLF001 - pytest has no public name for it
    return any(
        "request" in each.argnames and not each.func.__module__.startswith("_pytest.")
        for fixtures in found
        for each in fixtures
    )
