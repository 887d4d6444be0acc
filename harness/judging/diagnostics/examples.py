"""Small programs that `lockstep explain` shows: each is wrong in the way of its code, beside one that is right."""

from __future__ import annotations

import functools
from importlib.resources import files

import msgspec


class _Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A right program, the strategy under which it is one, and the step after which it is interrupted, if it is."""

    strategy: str
    program: str
    interrupt_at: int | None = None


class _Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is put in the place of lines of a frame; `right` and `strategy` where they are others than the frame's."""

    frame: str
    at: str
    wrong: str
    right: str | None = None
    strategy: str | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    frames: dict[str, _Frame]
    examples: dict[str, _Change]


class Example(msgspec.Struct, frozen=True):
    """A wrong program and the right one beside it.

    Attributes:
        strategy: under which they are so.
        interrupt_at: the step after which they are interrupted, if they are.
        wrong: the source of a script, or of a module with a function `train(strategy, record)`.
        right: the source that differs from it where it is wrong.
    """

    strategy: str
    wrong: str
    right: str
    interrupt_at: int | None = None


@functools.cache
def all_examples() -> dict[str, Example]:
    """Every example, by its code.

    Raises:
        ValueError: an example changes lines that its frame has not, or has more than once.
    """
    source = files(__package__).joinpath("examples.toml").read_bytes()
    found = msgspec.toml.decode(source, type=_File)
    return {code: _example(code, change, found.frames[change.frame]) for code, change in found.examples.items()}


def _example(code: str, change: _Change, frame: _Frame) -> Example:
    program = frame.program
    if program.count(change.at) != 1:
        raise ValueError(f"example {code!r}: its frame {change.frame!r} has not once: {change.at!r}")
    right = change.at if change.right is None else change.right
    return Example(
        change.strategy or frame.strategy,
        program.replace(change.at, change.wrong),
        program.replace(change.at, right),
        frame.interrupt_at,
    )
