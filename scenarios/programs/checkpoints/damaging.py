"""Damage every file of a checkpoint in every way, restore it, and count what came of it."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scenarios.programs.checkpoints import judging
from simulator import Cluster, UsageError
from simulator.faults import damage


@dataclass(frozen=True)
class Harm:
    """One damage to the newest saved state, and what a restore found.

    Attributes:
        file: the file, by role: its name without numbers.
        kind: what was done to it.
        detail: where.
        outcome: as in `judging.outcomes`.
    """

    file: str
    kind: str
    detail: str
    outcome: str


def saved_twice(name: str, root: Path) -> list[str]:
    """In a task: save step 1 and step 2; return the files that belong to the newest state."""
    from scenarios.programs.checkpoints import formats

    saver = formats.build(name, root)
    formats.fill(saver, 1)
    saver.save(1)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    formats.fill(saver, 2)
    saver.save(2)
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [str(path.relative_to(root)) for path in files if before.get(path) != path.stat().st_mtime_ns]


def sweep(cluster: Cluster, name: str, folder: Path, seeds: Sequence[int]) -> list[Harm]:
    """Every kind of damage to every file of the newest state, the seeded kinds once for each seed.

    A new process restores them all; one that dies of a damaged file counts as `crashed`, and another goes on.
    """
    root = folder / "saved"
    root.mkdir(parents=True)
    files = cluster.run(saved_twice, name, root)["local:0"].value
    cases = list(_cases(root, files, folder, seeds))
    found = judging.outcomes(cluster, name, [directory for directory, *_ in cases], folder / "outcomes.jsonl")
    return [Harm(file, kind, detail, outcome) for (_, file, kind, detail), outcome in zip(cases, found, strict=True)]


def _cases(
    root: Path, files: Iterable[str], folder: Path, seeds: Sequence[int]
) -> Iterator[tuple[Path, str, str, str]]:
    names = list(files)
    number = 0

    def copied() -> Path:
        nonlocal number
        number += 1
        return Path(shutil.copytree(root, folder / "damaged" / str(number)))

    for name in names:
        for kind in damage.KINDS:
            for seed in seeds if kind in {"flip_bit", "truncate", "zero_block"} else (0,):
                directory = copied()
                try:
                    done = damage.apply(kind, directory / name, seed)
                except UsageError:  # a file of zeros, or empty by design
                    shutil.rmtree(directory)
                    continue
                yield directory, _role(name), kind, f"{done.offset}+{done.length}"
    shards = [name for name in names if ".data-" in name]
    for one, other in itertools.pairwise(shards):
        directory = copied()
        damage.swap(directory / one, directory / other)
        yield directory, "data", "swap", f"{one} and {other}"
    if (root / "ckpt-2.index").exists():
        directory = copied()
        damage.replace(
            directory / "checkpoint", b'model_checkpoint_path: "ckpt-0"\nall_model_checkpoint_paths: "ckpt-0"\n'
        )
        yield directory, "checkpoint", "stale", "names a checkpoint that has been deleted"


def _role(name: str) -> str:
    path = Path(name)
    if ".data-" in path.name:
        return "data"
    if path.suffix == ".index":
        return "index"
    return path.name if not path.name.startswith("step-") else "".join(path.suffixes)


def counted(harms: Iterable[Harm]) -> Counter[tuple[str, str, str]]:
    """How often each (file, kind of damage, outcome) was seen; an error counts by its class."""
    return Counter((harm.file, harm.kind, harm.outcome.partition(":")[0]) for harm in harms)
