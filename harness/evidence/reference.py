"""What a run is compared with: the traces of its reference and of the perturbed reruns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from harness.evidence.independence import Touch
from harness.evidence.steps import FOR_ALL, Standing
from harness.evidence.trace import RunTrace, merge, read_client


@dataclass(frozen=True)
class Reference:
    """The reference trace, and those of the reruns with rounding-sized noise (none in the exact tier).

    `notes` are what a verdict says of how they were made. `touched` is what each of these runs has done with files, by
    what a sentence calls the run. `threads` is what TensorFlow's pools were bounded to, None where they were not.
    `hardware` is what it ran on. `earlier` is what parts before the last one are held against, by their number from 0,
    where that is another one. `python` is the interpreter of its environment, None if that is the run's.
    `tier` is the one that was asked for, where the reruns do not say it: one that follows a run may need none.
    `standing` is how its replica stands for those of a run that it follows. `native` is whether it is a script that was
    told of one replica, as it is on one device.
    """

    trace: RunTrace
    perturbed: tuple[RunTrace, ...] = ()
    notes: tuple[str, ...] = ()
    touched: Mapping[str, Sequence[Touch]] = field(default_factory=dict)
    threads: int | None = None
    hardware: str = "cpu"
    earlier: Mapping[int, Reference] = field(default_factory=dict)
    python: str | None = None
    tier: str | None = None
    standing: Standing = FOR_ALL
    native: bool = False

    @property
    def follows(self) -> bool:
        """Whether it followed the run, step by step."""
        return self.trace.header.follows

    @property
    def stands(self) -> Standing | None:
        """Its standing; None if it has followed nothing."""
        return self.standing if self.follows else None


class ReferenceFiles(msgspec.Struct, frozen=True):
    """A reference as files: `plain` and `perturbed` are traces; the rest is as of `Reference`."""

    plain: str
    perturbed: tuple[str, ...]
    notes: tuple[str, ...]
    touched: dict[str, tuple[Touch, ...]]
    threads: int | None

    def read(self) -> Reference:
        """The reference; its traces are read now."""
        found = read_reference(Path(self.plain), [Path(file) for file in self.perturbed])
        return replace(found, notes=self.notes, touched=self.touched, threads=self.threads)


def read_reference(plain: Path, perturbed: Sequence[Path]) -> Reference:
    """Read a reference from its trace files."""
    return Reference(
        trace=merge([read_client(plain)]), perturbed=tuple(merge([read_client(file)]) for file in perturbed)
    )
