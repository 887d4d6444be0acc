"""The fixture's side of the lab."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.simulator.lab.keeper import OWN

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Lab:
    """Machines `m0`, `m1` and so on; the directory is on all of them, and so is all that is in no place of `OWN`."""

    keeper: subprocess.Popen[str]
    shared: Path
    count: int

    @property
    def machines(self) -> str:
        """For `Cluster(machines=...)`."""
        names = ",".join(f"m{number}" for number in range(self.count))
        return f"{sys.executable} -m tests.simulator.lab.dial {self.keeper.pid} {{}}:{names}"

    @property
    def cable(self) -> str:
        """For `Cluster(cable=...)`."""
        return f"{sys.executable} -m tests.simulator.lab.pull {self.keeper.pid} {{}}"

    def _ask(self, line: str) -> None:
        assert self.keeper.stdin is not None
        assert self.keeper.stdout is not None
        self.keeper.stdin.write(f"{line}\n")
        self.keeper.stdin.flush()
        assert self.keeper.stdout.readline() == "done\n"

    def cut(self, number: int) -> None:
        """Pull the cable of a machine."""
        self._ask(f"cut {number}")

    def mend(self, number: int) -> None:
        """Put it back."""
        self._ask(f"mend {number}")

    def power_off(self, number: int) -> None:
        """Every process of a machine is gone at once, and nobody is told."""
        self.cut(number)
        self._ask(f"off {number}")


@contextlib.contextmanager
def lab(shared: Path, count: int = 2) -> Iterator[Lab]:
    """A lab of so many machines; skips where the kernel does not grant one."""
    errors = shared / "lab.stderr"
    command = [sys.executable, "-m", "tests.simulator.lab.keeper", str(count), *_kept(shared)]
    with (
        errors.open("w") as file,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True, cwd=ROOT
        ) as keeper,
    ):
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        try:
            if keeper.stdout.readline() != "ready\n":
                last = (errors.read_text().splitlines() or ["nothing was said"])[-1]
                pytest.skip(f"this machine gives no namespaces for several machines: {last}")
            yield Lab(keeper, shared, count)
        finally:
            keeper.stdin.close()
            keeper.wait(20)


def _kept(shared: Path) -> Sequence[str]:
    """What would be hidden by what a machine has of its own."""
    below = tuple(f"{place}/" for place in OWN)
    return [str(place) for place in (shared, ROOT, Path(sys.prefix)) if str(place).startswith(below)]
