"""How long it takes to watch one step of a convolutional network: run, reference and two reruns with noise."""

from __future__ import annotations

from benchmarks.measure import Figure, main, median, seconds_of
from harness.running.watched_step import watch_step
from harness.subject.program import Program
from harness.subject.strategies import strategy_case
from scenarios.programs import keras_loop

_ROUNDS = 3
_PROGRAM = keras_loop.make("keras", "cnn", "sgd")


def watch_digits() -> Figure:
    """Watch the first step of the digits' CNN under mirrored-2."""
    seconds_of(_watch)
    seconds = [seconds_of(_watch) for _ in range(_ROUNDS)]
    return Figure(
        name="watch a step of the digits' CNN, mirrored-2", figure=median(seconds), unit="s", target=20, samples=_ROUNDS
    )


def _watch() -> None:
    watch_step(Program.of(_PROGRAM), strategy_case("mirrored-2"), step=1, seed=20, timeout=120)


MEASUREMENTS = (watch_digits,)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
