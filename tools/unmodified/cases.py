"""Which scripts are verified: the catalogue, and the twin of each script that a mistake makes."""

from __future__ import annotations

import fnmatch
from functools import cache
from pathlib import Path

import msgspec

FOLDER = Path(__file__).resolve().parent


class _Mistake(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    becomes: str
    answer: str = "inconsistent"


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    on: str
    script: str | None = None
    args: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    answer: str = "consistent"
    mistakes: dict[str, _Mistake] = {}


class Case(msgspec.Struct, frozen=True):
    """A script, or its twin.

    Attributes:
        entry: of the catalogue.
        script: the file, without its suffix.
        on: the strategy that it builds, by Lockstep's name.
        answer: what the outcome of its verdict has to be.
        source: what is run.
        args: with which arguments.
        options: of `lockstep verify`, besides the strategy.
        mistake: what is wrong with it, in a few words, None if it is right.
    """

    entry: str
    script: str
    on: str
    answer: str
    source: str
    args: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    mistake: str | None = None

    @property
    def name(self) -> str:
        """What reports call it, and what `--only` is held against."""
        return self.entry if self.mistake is None else f"{self.entry}:{self.mistake}"

    @property
    def doc(self) -> str:
        """What the script says of itself."""
        return self.source.split('"""')[1].strip().splitlines()[0]


def cases(only: str = "*") -> list[Case]:
    """Those whose names match."""
    return [case for case in _all() if fnmatch.fnmatchcase(case.name, only)]


@cache
def _all() -> tuple[Case, ...]:
    entries = msgspec.toml.decode((FOLDER / "catalogue.toml").read_bytes(), type=dict[str, _Entry])
    found = []
    for key, entry in entries.items():
        script = entry.script or key
        source = (FOLDER / "scripts" / f"{script}.py").read_text()
        right = Case(key, script, entry.on, entry.answer, source, entry.args, entry.options)
        found.append(right)
        for name, mistake in entry.mistakes.items():
            if source.count(mistake.text) != 1:
                raise ValueError(f"{key}: the text of mistake {name} stands in it {source.count(mistake.text)} times")
            twin = source.replace(mistake.text, mistake.becomes)
            found.append(msgspec.structs.replace(right, source=twin, answer=mistake.answer, mistake=name))
    return tuple(found)
