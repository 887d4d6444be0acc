"""What `lockstep run` adds to a script, and how fast many workers of one start, next to such that are not forked."""

from __future__ import annotations

import functools
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import trainings
from benchmarks.costing import cost_of
from benchmarks.measure import Figure, main, median
from simulator.launch.preloaded import FRESH

_ROUNDS = 3
_WORKERS = 16
_RUN = [sys.executable, "-c", "from _lockstep.command import main; main()", "run", "--quiet"]
_REDUCING = str(Path(__file__).with_name("reducing.py"))


def added_to_a_script() -> Figure:
    """A small CNN on two devices: the import of TensorFlow counts on both sides."""
    script = [sys.executable, trainings.__file__, "cnn"]
    run, hand = [*_RUN, "--devices", "cpu:2", "--", *script, "mirrored-2"], [*script, "by-hand"]
    costs = [(cost_of(run).wall, cost_of(hand).wall) for _ in range(_ROUNDS)]
    return Figure(
        name="lockstep run of a CNN; peer: python",
        figure=median([ours for ours, _ in costs]),
        unit="s",
        target=0.5,
        limit_of="excess",
        peer=median([theirs for _, theirs in costs]),
        samples=_ROUNDS,
    )


@functools.cache
def _workers(fresh: str) -> tuple[float, float]:
    """Seconds of a whole run of workers that reduce once, and the MiB of each."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        command = [*_RUN, f"--worker={_WORKERS}", f"--out={out}", "--", sys.executable, _REDUCING]
        seconds = cost_of(command, {FRESH: fresh}).wall
        logs = [log.read_text() for log in out.rglob("worker-*.log")]
    return seconds, median(
        [float(size) for log in logs for size in re.findall(r"^memory ([\d.]+)$", log, re.MULTILINE)]
    )


def _many(what: str, unit: str, target: float, index: int) -> Callable[[], Figure]:
    def measured() -> Figure:
        return Figure(
            name=f"{_WORKERS} workers of a script, {what}; peer: each imports",
            figure=_workers("")[index],
            unit=unit,
            target=target,
            limit_of="ratio",
            peer=_workers("1")[index],
        )

    return measured


def most_workers() -> Figure:
    """As many workers as a job may have."""
    command = [*_RUN, "--worker=128", "--", sys.executable, _REDUCING]
    return Figure(name="128 workers of a script", figure=cost_of(command).wall, unit="s", target=30.0)


MEASUREMENTS = (added_to_a_script, _many("start to end", "s", 0.2, 0), _many("memory", "MiB", 0.34, 1), most_workers)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
