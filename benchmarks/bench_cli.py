"""How long the command line takes to answer when nothing has to be run."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.measure import Figure, main, median, seconds_of

_ROUNDS = 9
_HELP = [sys.executable, "-c", "from harness.cli import main; main()", "--help"]


def help_text() -> Figure:
    """Run `lockstep --help` in a fresh interpreter."""
    seconds = [
        seconds_of(lambda: subprocess.run(_HELP, check=True, stdout=subprocess.DEVNULL, timeout=60))
        for _ in range(_ROUNDS)
    ]
    return Figure(name="lockstep --help", figure=median(seconds), unit="s", target=0.3, samples=_ROUNDS)


MEASUREMENTS = (help_text,)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
