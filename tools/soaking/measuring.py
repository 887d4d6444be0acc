"""What links between tasks really do, next to what was asked of them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import msgspec

_SECONDS_MAX = 60.0


class Measured(msgspec.Struct, frozen=True):
    """One measurement.

    Attributes:
        what: was measured, such as `loss`.
        of: what was sent.
        network: between which tasks.
        asked: the condition, as a number.
        found: what was measured, in the same unit.
        least: what it has to be at least.
        most: and at most.
    """

    what: str
    of: str
    network: str
    asked: float
    found: float
    least: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether it lies within its interval."""
        return self.least <= self.found <= self.most

    def __str__(self) -> str:
        """A sentence."""
        bounds = f"{self.least:.4g} to {self.most:.4g}"
        return f"{self.what} of {self.of}, {self.network}: {self.found:.4g} for {self.asked:.4g} asked, not {bounds}"


def loss(of: str, share: float, count: int, found: int) -> Measured:
    """Of so many packets so many were lost; in one of 1.7 million measurements that is outside of the interval."""
    most = 5 * math.sqrt(share * (1 - share) / count)
    return Measured("loss", of, "namespaces", share, found / count, share - most, share + most)


KINDS = (
    "loss TCP namespaces",
    "loss UDP namespaces",
    "rate TCP loopback",
    "rate TCP namespaces",
    "rate UDP namespaces",
    "delay TCP loopback",
    "delay TCP namespaces",
)
"""All that is measured."""


def measured(seed: int, packages: Path, kinds: tuple[str, ...] = ()) -> list[Measured]:
    """Measure one of the kinds, or these, in a process of its own with the code of these packages."""
    chance = Random(seed)
    chosen = kinds or (chance.choice(KINDS),)
    with tempfile.TemporaryDirectory(prefix="soak-", dir="/tmp") as folder:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(Path(__file__).parents[2])])}
        command = [sys.executable, "-m", "tools.soaking.links", str(seed), *chosen]
        done = subprocess.run(
            command, cwd=folder, env=environ, capture_output=True, timeout=_SECONDS_MAX * len(chosen), check=False
        )
    if done.returncode:
        raise ChildProcessError(done.stderr.decode()[-2000:])
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=list[Measured])
