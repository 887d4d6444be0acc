"""Models of real size, and wrong programs that were written to be proved by mistake: each is a function of a file."""

from __future__ import annotations

import ast
import fnmatch
from pathlib import Path

import msgspec

from tools.trying.cases import guilty_lines

FOLDER = Path(__file__).resolve().parent / "programs"


class Model(msgspec.Struct, frozen=True):
    """A program of this folder, as `tools.trying.cases.Trial` has it."""

    stem: str
    function: str
    mistake: str | None = None
    strategy: str = "mirrored-2"

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"models:{self.function}@{self.strategy}"

    @property
    def file(self) -> Path:
        """Where it is."""
        return FOLDER / f"{self.stem}.py"

    @property
    def program(self) -> str:
        """As `prove` takes it."""
        return f"{self.file}:train_{self.function}"

    @property
    def guilty(self) -> tuple[int, ...]:
        """The lines that may be blamed."""
        return guilty_lines(self.file.read_text(), f"train_{self.function}")


def models(only: str = "*") -> tuple[Model, ...]:
    """All whose names match a pattern; what is wrong with one that has a guilty line is what its docstring says."""
    found = []
    for file in sorted(FOLDER.glob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("train_"):
                model = Model(file.stem, node.name.removeprefix("train_"))
                if model.guilty:
                    says = (ast.get_docstring(node) or "").rstrip(".")
                    model = msgspec.structs.replace(model, mistake=says[:1].lower() + says[1:])
                found.append(model)
    return tuple(each for each in found if fnmatch.fnmatch(each.name, only))
