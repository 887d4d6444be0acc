"""Kill a save at every call that changes a file, and see what can be restored after each."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scenarios.programs.checkpoints import filecalls, judging
from simulator import Cluster
from simulator.agent import current

# What a save of a CheckpointManager goes through, each as the first call that matches: the one which does not happen.
PHASES = {
    "before the first shard": r"mkdir ckpt-2_temp",
    "in the first shard": r"write \S*part-00000\S*data",
    "between shards": r"openat \S*part-00001\S*data",
    "after the data of all shards, before they are moved": r"rename ckpt-2\.data",
    "after the data, before the index": r"openat ckpt-2\.index",
    "in the index": r"write ckpt-2\.index",
    "after the index": r"(unlink|unlinkat) ckpt-2_temp",
    "before the state file": r"openat checkpoint\.tmp",
    "before the state file gets its name": r"(rename|renameat2?) checkpoint",
    "after the state file, before the old index goes": r"(unlink|unlinkat) ckpt-1\.index",
    "between the old index and the old data": r"(unlink|unlinkat) ckpt-1\.data",
}


@dataclass(frozen=True)
class Point:
    """One point of a save: the call that did not happen any more, and what a restore then found."""

    number: int
    call: str
    outcome: str


def save_twice(name: str, root: Path, address: Path) -> None:
    """In a task: save step 1 freely, then step 2 with every file call held."""
    from scenarios.programs.checkpoints import formats

    agent = current()
    saver = formats.build(name, root)
    formats.fill(saver, 1)
    saver.save(1)
    formats.fill(saver, 2)
    assert agent is not None
    filecalls.hold_me(address)
    saver.save(2)


def every_point(cluster: Cluster, name: str, folder: Path) -> list[Point]:
    """All points of one save, in order, the last one being its end: what is on disk there, restored in a new process.

    The save runs once. Before each of its file calls the directory is copied: a process that is killed there leaves
    just that, because what it has written belongs to the kernel (`killed_at` shows it).
    """
    root = folder / "saved"
    root.mkdir(parents=True)
    calls: list[str] = []

    def keep(number: int, call: filecalls.FileCall) -> bool:
        calls.append(str(call))
        shutil.copytree(root, folder / "points" / str(number))
        return True

    with filecalls.held(root, folder / "calls.sock", keep):
        cluster.run(save_twice, name, root, folder / "calls.sock")
    calls.append("(finished)")
    # Moved, so that a restore which follows an absolute path to the original finds nothing.
    root.rename(folder / "points" / str(len(calls) - 1))
    directories = [folder / "points" / str(number) for number in range(len(calls))]
    outcomes = judging.outcomes(cluster, name, directories, folder / "outcomes.jsonl")
    return [Point(number, call, outcome) for number, (call, outcome) in enumerate(zip(calls, outcomes, strict=True))]


def killed_at(cluster: Cluster, name: str, folder: Path, number: int) -> Point:
    """Kill the saving task when it is about to make file call `number`, and restore in a new process."""
    root = folder / "saved"
    root.mkdir(parents=True)
    calls: list[str] = []

    def kill(count: int, call: filecalls.FileCall) -> bool:
        calls.append(str(call))
        return count < number

    cluster.expect("local:0", exit=-9)
    with filecalls.held(root, folder / "calls.sock", kill):
        cluster.run(save_twice, name, root, folder / "calls.sock")
    (outcome,) = judging.outcomes(cluster, name, [root], folder / "outcomes.jsonl")
    return Point(number, calls[-1], outcome)


def phases_of(points: Sequence[Point]) -> dict[str, int]:
    """For each named phase the number of its point; a phase that this save does not have is missing."""
    found = {}
    for phase, pattern in PHASES.items():
        for point in points:
            if re.match(pattern, point.call):
                found[phase] = point.number
                break
    return found


def same_files(one: Path, other: Path) -> bool:
    """Whether two directories hold the same files: random parts of names and times of day aside, bit for bit."""
    return _files(one) == _files(other)


def _files(root: Path) -> dict[str, object]:
    files: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = re.sub(r"tempstate\d+|tmp[0-9a-f]{32}", "*", str(path.relative_to(root)))
        # The state file and a `.keras` archive hold the time of day, which may also change their length.
        timed = name.startswith("checkpoint") or name.endswith(".keras")
        files[name] = None if path.is_dir() or timed else path.read_bytes()
    return files
