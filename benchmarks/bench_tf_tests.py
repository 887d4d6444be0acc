"""A test of TensorFlow's own kind in four tasks: under pytest with `harness.tf_tests`, and by TensorFlow's runner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from benchmarks.measure import Figure, main, median, seconds_of

_SOURCE = Path(__file__).with_name("tf_tests_peer.py")
_ROUNDS = 2
_SECONDS_MAX = 300


@cache
def _measured() -> dict[str, list[float]]:
    """Seconds of whole commands, of the first run in each, and of later ones; both sides in turns."""
    found: dict[str, list[float]] = {name: [] for name in ("ours", "theirs", "our first", "their first", "ours later")}
    found["theirs later"] = []
    with tempfile.TemporaryDirectory() as folder:
        test = Path(folder, "four_test.py")
        shutil.copy(_SOURCE, test)
        # TensorFlow's runner starts this again by its name, and refuses one that ends in `.py`.
        program = Path(folder, "four_bazel")
        program.write_text(f"#!{sys.executable}\n{_SOURCE.read_text()}")
        program.chmod(0o755)
        ours = [sys.executable, "-m", "pytest", "-q", "-p", "harness.tf_tests", "-p", "no:cacheprovider", str(test)]
        for _ in range(_ROUNDS):
            for command, whole, first, later in (
                ([str(program)], "theirs", "their first", "theirs later"),
                (ours, "ours", "our first", "ours later"),
            ):
                found[whole].append(seconds_of(lambda command=command: _run(command, folder)))  # type: ignore[misc]
                seconds = json.loads(Path(folder, "out").read_text())
                found[first].append(seconds[0])
                found[later] += seconds[1:]
    return found


def _run(command: list[str], folder: str) -> None:
    environment = {**os.environ, "LOCKSTEP_BENCH_OUT": f"{folder}/out", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")


def cold() -> Figure:
    """The whole command, from its start to its end: imports, three clusters of four tasks, clean-up."""
    found = _measured()
    return Figure(
        name="test in 4 tasks, whole command",
        figure=median(found["ours"]),
        unit="s",
        target=0.7,
        limit_of="ratio",
        peer=median(found["theirs"]),
        samples=_ROUNDS,
    )


def first() -> Figure:
    """The first cluster of a test process: TensorFlow's runner starts its forkserver then."""
    found = _measured()
    return Figure(
        name="test in 4 tasks, first cluster",
        figure=median(found["our first"]),
        unit="s",
        target=0.7,
        limit_of="ratio",
        peer=median(found["their first"]),
        samples=_ROUNDS,
    )


def later() -> Figure:
    """A later cluster: TensorFlow's runner sleeps a second between two looks at its processes."""
    found = _measured()
    return Figure(
        name="test in 4 tasks, later clusters",
        figure=median(found["ours later"]),
        unit="s",
        target=1.0,
        limit_of="ratio",
        peer=median(found["theirs later"]),
        samples=len(found["ours later"]),
    )


MEASUREMENTS = (cold, first, later)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
