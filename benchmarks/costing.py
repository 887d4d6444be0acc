"""A program that runs a command and prints what it has cost: `python -m benchmarks.costing COMMAND ...`.

All that the command starts is adopted and waited for, so that the processors' time of what outlives its parent counts.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulator.kernel import adopt_orphans


@dataclass(frozen=True)
class Cost:
    """Seconds of wall time, and of the processors'."""

    wall: float
    processors: float


def cost_of(command: Sequence[str], environ: Mapping[str, str] = {}) -> Cost:
    """Run a command, with these variables in its environment.

    Raises:
        RuntimeError: it has failed, with the end of its output.
    """
    whole = [sys.executable, "-m", "benchmarks.costing", *command]
    done = subprocess.run(whole, capture_output=True, text=True, env={**os.environ, **environ}, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} has failed: {(done.stdout + done.stderr)[-2000:]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def _main() -> None:
    adopt_orphans()
    began = time.monotonic()
    code = subprocess.run(sys.argv[1:], stdout=sys.stderr, check=False).returncode
    wall = time.monotonic() - began
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"wall": wall, "processors": used.ru_utime + used.ru_stime}))
    sys.exit(code)


if __name__ == "__main__":
    _main()
