"""What a run is compared with: the traces of its reference and of the perturbed reruns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.evidence.independence import Touch
from harness.evidence.trace import RunTrace, merge, read_client

__all__ = ["Reference", "read_reference"]


@dataclass(frozen=True)
class Reference:
    """The reference trace, and those of the reruns with rounding-sized noise (none in the exact tier).

    `notes` are what a verdict says of how they were made. `touched` is what each of these runs has done with files, by
    what a sentence calls the run. `threads` is what TensorFlow's pools were bounded to, None where they were not.
    `kernels` is whether it is for a run whose kernels are not the CPU's. `hardware` is what it ran on.
    """

    trace: RunTrace
    perturbed: tuple[RunTrace, ...] = ()
    notes: tuple[str, ...] = ()
    touched: Mapping[str, Sequence[Touch]] = field(default_factory=dict)
    threads: int | None = None
    kernels: bool = False
    hardware: str = "cpu"


def read_reference(plain: Path, perturbed: Sequence[Path]) -> Reference:
    """Read a reference from its trace files."""
    return Reference(
        trace=merge([read_client(plain)]), perturbed=tuple(merge([read_client(file)]) for file in perturbed)
    )
