"""What every benchmark reports, and how it is printed and checked."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """One measured median, the most it may be, and the median of a peer where there is one.

    `limit_of` says what `target` bounds: the `figure` itself, its `ratio` to the peer, or its `excess` over that.
    """

    name: str
    figure: float
    unit: str
    target: float
    limit_of: str = "figure"
    peer: float | None = None
    samples: int = 1

    @property
    def ratio(self) -> float | None:
        """This figure over the peer's."""
        return None if self.peer is None else self.figure / self.peer

    @property
    def excess(self) -> float | None:
        """By how much this figure is more than the peer's."""
        return None if self.peer is None else self.figure - self.peer

    @property
    def met(self) -> bool:
        """Whether the target was kept."""
        bounded = {"figure": self.figure, "ratio": self.ratio, "excess": self.excess}[self.limit_of]
        return bounded is not None and bounded <= self.target

    def __str__(self) -> str:
        """One line: name, figure, target, ratio, outcome."""
        peer = "" if self.peer is None else f"  peer {self.peer:.2f} {self.unit}  ratio {self.ratio:.2f}"
        unit = "" if self.limit_of == "ratio" else f" {self.unit}"
        return (
            f"{self.name:<44} {self.figure:8.2f} {self.unit:<3} (median of {self.samples}){peer}"
            f"  target {self.limit_of} <= {self.target:g}{unit}  {'ok' if self.met else 'MISSED'}"
        )


def seconds_of(action: Callable[[], object]) -> float:
    """Return how long `action` takes."""
    start = time.monotonic()
    action()
    return time.monotonic() - start


def median(samples: Sequence[float]) -> float:
    """Return the median of at least one sample."""
    return statistics.median(samples)


def main(measurements: Sequence[Callable[[], Figure]], description: str) -> None:
    """Take the measurements one by one, print each as it is ready, and exit with 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON list instead of one line per benchmark")
    as_json = parser.parse_args().json
    figures = []
    for measurement in measurements:
        figure = measurement()
        figures.append(figure)
        if not as_json:
            print(figure, flush=True)
    if as_json:
        print(
            json.dumps([{**asdict(figure), "ratio": figure.ratio, "met": figure.met} for figure in figures], indent=2)
        )
    sys.exit(0 if all(figure.met for figure in figures) else 1)
