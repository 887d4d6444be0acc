"""What a program of `examples/wild/` declares about itself, in the form of inline script metadata (PEP 723)."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "wild"
_BLOCK = re.compile(r"^# /// script\n(?P<content>(?:^#(?: .*)?\n)+?)^# ///$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """A function of a program under a strategy, and what is known to come of it.

    `outcome` is that of a verdict, or `failed` where the run fails. `because` is a piece of text that the verdict then
    has to contain, such as the rule or the culprit; empty if it is consistent.
    """

    function: str
    strategy: str
    outcome: str = "consistent"
    because: str = ""


@dataclass(frozen=True)
class Wild:
    """One program with the packages that it needs.

    `without_their_own` are packages which refuse these versions of TensorFlow or NumPy by their metadata only: they are
    installed without what they require, and what they need is in `dependencies`.
    """

    name: str
    file: Path
    says: str
    dependencies: tuple[str, ...]
    without_their_own: tuple[str, ...]
    environ: dict[str, str] = field(default_factory=dict)
    cases: tuple[Case, ...] = ()

    @property
    def requirements(self) -> tuple[str, ...]:
        """All that is installed, with its versions."""
        return (*self.without_their_own, *self.dependencies)


def declared(file: Path) -> Wild:
    """Read the declaration of a program.

    Raises:
        ValueError: it has none, or one that says too little.
    """
    text = file.read_text("utf-8")
    blocks = list(_BLOCK.finditer(text))
    if len(blocks) != 1:
        raise ValueError(f"{file.name} has {len(blocks)} blocks `# /// script`, not one")
    content = "".join(line[2:] for line in blocks[0]["content"].splitlines(keepends=True))
    table = _toml(content)
    mine = table.get("tool", {}).get("lockstep", {})
    unknown = mine.keys() - {"cases", "environ", "without-their-own"}
    if unknown or not mine.get("cases"):
        raise ValueError(
            f"{file.name}: [tool.lockstep] has no cases, or {', '.join(sorted(unknown))}, which is unknown"
        )
    return Wild(
        name=file.stem.removeprefix("train-"),
        file=file,
        says=(ast.get_docstring(ast.parse(text)) or "").partition("\n")[0],
        dependencies=tuple(table.get("dependencies", ())),
        without_their_own=tuple(mine.get("without-their-own", ())),
        environ=dict(mine.get("environ", {})),
        cases=tuple(Case(*case.split(maxsplit=3)) for case in mine["cases"]),
    )


def _toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def programs() -> list[Wild]:
    """All programs, by name."""
    return [declared(file) for file in sorted(FOLDER.glob("train-*.py"))]
