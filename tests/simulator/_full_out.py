"""A cluster whose logs are kept where there is no room any more; see test_breakdown."""

from __future__ import annotations

from pathlib import Path

from simulator import Cluster, RunFailed, Topology


def main(disk: Path) -> str:
    """A program that cannot write the lines of its log, and ends for that; how the run says so."""
    program = f"cat /dev/zero > {disk}/filling; exit 1"
    try:
        with Cluster(Topology(worker=1), preload=(), timeout=30, out=disk / "out") as cluster:
            cluster.run_command(["sh", "-c", program])
    except RunFailed as failed:
        return str(failed)
    return "ended well"
