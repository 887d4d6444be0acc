"""Run out of space at a chosen byte of a save, by error or by death, and see what can be restored afterwards."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from scenarios.programs.checkpoints import judging
from simulator import Cluster, RunFailed

NOTHING = "saved"


@dataclass(frozen=True)
class Cut:
    """One limit on file size, what the save said to it, and what a restore then found.

    Attributes:
        byte: no file can grow beyond this many bytes.
        said: class of the exception that the save raised, or `saved`.
        outcome: as in `judging.outcomes`.
    """

    byte: int
    said: str
    outcome: str


def offsets(count: int, size: int, seed: int) -> list[int]:
    """`count` different offsets below `size`, spread over it: one drawn from each of as many equal parts."""
    rng = random.Random(seed)
    count = min(count, size)
    edges = [size * part // count for part in range(count + 1)]
    return [rng.randrange(begin, end) for begin, end in itertools.pairwise(edges)]


def cuts(cluster: Cluster, name: str, folder: Path, count: int, seed: int) -> list[Cut]:
    """Cut a save of step 2 at each of `count` bytes; one process saves, a new one restores what each cut has left.

    The last entry is a save without a limit, after all the others failed in the same process: `saved` and `new`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "said.jsonl"
    log.touch()
    while len(said := [json.loads(line) for line in log.read_text().splitlines()]) <= count:
        try:
            cluster.run(_save_cut, name, folder, count, seed, len(said))
        except RunFailed as failure:
            if failure.root_cause.kind != "Signal":
                raise
            # HDF5 does not survive a full disk. A new process goes on with the next byte.
            last = len(log.read_text().splitlines())
            (folder / "saved").rename(folder / "points" / str(last))
            _append(log, json.loads((folder / "byte").read_text()), failure.root_cause.message)
    directories = [folder / "points" / str(number) for number in range(len(said))]
    found = judging.outcomes(cluster, name, directories, folder / "outcomes.jsonl")
    return [Cut(byte, words, outcome) for (byte, words), outcome in zip(said, found, strict=True)]


def _append(log: Path, byte: int, words: str) -> None:
    with log.open("a") as file:
        file.write(json.dumps([byte, words]) + "\n")


def _save_cut(name: str, folder: Path, count: int, seed: int, begin: int) -> None:
    import resource

    from scenarios.programs.checkpoints import formats

    root, first = folder / "saved", folder / "first"
    for left in (root, first):
        shutil.rmtree(left, ignore_errors=True)
    root.mkdir()
    (folder / "points").mkdir(exist_ok=True)
    saver = formats.build(name, root)
    formats.fill(saver, 1)
    saver.save(1)
    shutil.copytree(root, first)
    largest = max(path.stat().st_size for path in root.rglob("*") if path.is_file())
    formats.fill(saver, 2)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The last limit is none at all: every cut save must have left a process that can save.
    for number, byte in list(enumerate([*offsets(count, largest, seed), most]))[begin:]:
        shutil.rmtree(root)
        shutil.copytree(first, root)
        (folder / "byte").write_text(str(byte))
        resource.setrlimit(resource.RLIMIT_FSIZE, (byte, most))
        try:
            saver.save(2)
            words = NOTHING
        except Exception as error:  # noqa: BLE001 - whatever a save raises is what it says
            words = type(error).__name__
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        shutil.copytree(root, folder / "points" / str(number))
        _append(folder / "said.jsonl", byte, words)
    shutil.rmtree(root)


def die_at(cluster: Cluster, name: str, folder: Path, byte: int) -> Cut:
    """Let SIGXFSZ kill the saving process when a file is to grow beyond this byte, and restore in a new one."""
    root = folder / "saved"
    root.mkdir(parents=True)
    cluster.expect("local:0", exit=-25)
    cluster.run(_save_and_die, name, root, byte)
    (outcome,) = judging.outcomes(cluster, name, [root], folder / "outcomes.jsonl")
    return Cut(byte, "SIGXFSZ", outcome)


def _save_and_die(name: str, root: Path, byte: int) -> None:
    import resource
    import signal

    from scenarios.programs.checkpoints import formats

    saver = formats.build(name, root)
    formats.fill(saver, 1)
    saver.save(1)
    formats.fill(saver, 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (byte, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, so that a write fails instead
    saver.save(2)
