"""What a consistent verdict costs, with its proof, next to a plain run of the same training under the same strategy."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil

from benchmarks import trainings
from benchmarks.measure import Figure, main, median
from harness import verify
from harness.subject.strategies import strategy_case
from simulator import Cluster

__all__ = ["MEASUREMENTS"]

_ROUNDS = 3
_WALL_MAX, _PROCESSOR_MAX = 2.0, 4.0
_MODELS = (trainings.cnn, trainings.mobilenet, trainings.transformer)
_STRATEGIES = ("mirrored-2", "multi_worker-2")


class _Nobody:
    """A record that keeps nothing."""

    def step(self, **values: Any) -> None:
        """A step was done."""

    def final(self, **values: Any) -> None:
        """The training was done."""


def _plain(name: str, case: Any) -> None:
    getattr(trainings, name)(case.build(), _Nobody())


def _run(name: str, strategy: str) -> None:
    case = strategy_case(strategy)
    with Cluster(case.topology, timeout=600) as cluster:
        cluster.run(_plain, name, case)


def _verify(name: str, strategy: str) -> None:
    verdict = verify(getattr(trainings, name), strategy, timeout=600)
    assert verdict, str(verdict)
    assert verdict.proof is not None


def _cost(action: Callable[[], None]) -> tuple[float, float]:
    """Seconds of wall time, and of the processors' for this process and what it has started."""
    before, began = _processor_seconds(), time.monotonic()
    action()
    return time.monotonic() - began, _processor_seconds() - before


def _processor_seconds() -> float:
    """With those of processes that have ended: who has waited for them counts theirs."""
    mine = psutil.Process()
    return sum(sum(each.cpu_times()[:4]) for each in (mine, *mine.children(recursive=True)))


@functools.cache
def _costs(name: str, strategy: str) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Of verdicts and of plain runs, in turns, after one of each that has imported what they need."""
    verdicts, runs = [], []
    for each in range(_ROUNDS + 1):
        run, verdict = _cost(lambda: _run(name, strategy)), _cost(lambda: _verify(name, strategy))
        if each:
            runs.append(run)
            verdicts.append(verdict)
    return verdicts, runs


def _figures(name: str, strategy: str) -> Iterator[Callable[[], Figure]]:
    for index, (what, most) in enumerate((("wall", _WALL_MAX), ("processors", _PROCESSOR_MAX))):

        def measured(index: int = index, what: str = what, most: float = most) -> Figure:
            verdicts, runs = _costs(name, strategy)
            return Figure(
                name=f"a verdict on {name}, {strategy}, {what}; peer: a run",
                figure=median([each[index] for each in verdicts]),
                unit="s",
                target=most,
                limit_of="ratio",
                peer=median([each[index] for each in runs]),
                samples=_ROUNDS,
            )

        yield measured


MEASUREMENTS = tuple(
    figure for model in _MODELS for strategy in _STRATEGIES for figure in _figures(model.__name__, strategy)
)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
