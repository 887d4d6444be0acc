"""What run and reference had installed, where the reference is of another environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.evidence.reference import Reference
from harness.evidence.trace import RunTrace

_NAMES = {"tensorflow": "TensorFlow", "keras": "Keras", "numpy": "NumPy", "python": "Python"}


@dataclass(frozen=True)
class Environments:
    """The versions of Python and of the packages that numbers depend on, by package.

    `python` is the interpreter of the reference.
    """

    run: dict[str, str]
    reference: dict[str, str]
    python: str | None = None

    @property
    def text(self) -> str:
        """What differs, the reference's version first; in one line."""
        every = dict.fromkeys([*self.reference, *self.run])
        pairs = {name: (self.reference.get(name, "none"), self.run.get(name, "none")) for name in every}
        apart = [
            f"{_NAMES.get(name, name)} {before} and {after}"
            for name, (before, after) in pairs.items()
            if before != after
        ]
        return ", ".join(apart) or "two environments with the same versions of all packages that numbers depend on"

    def to_json(self) -> dict[str, Any]:
        """As in the JSON of a verdict."""
        return {"run": self.run, "reference": self.reference, "reference_python": self.python}


def environments_of(run: RunTrace, reference: Reference) -> Environments | None:
    """What is known of both, if the reference was made by another Python or with other versions."""
    ours, theirs = run.header.versions, reference.trace.header.versions
    if reference.python is None and ours == theirs:
        return None
    return Environments(ours, theirs, reference.python)
