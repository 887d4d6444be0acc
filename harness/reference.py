"""The truth to compare with: the same program under the default strategy, run once and kept."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from filelock import FileLock

from harness._client import Assignment, run_client
from harness.errors import NothingObserved, NotReproducible
from harness.program import Program
from harness.reproduced import first_difference
from harness.strategies import strategy_case
from harness.tolerance import Derived, Exact, Tolerance
from harness.trace import RunTrace, merge, read_client
from simulator import Cluster, Run, RunFailed
from simulator.scratch import make_scratch

__all__ = ["CACHE_VARIABLE", "NOISE_SEEDS", "Reference", "read_reference", "reference_of"]

CACHE_VARIABLE = "LOCKSTEP_CACHE"
# Two opposite pairs; see harness._noise.
NOISE_SEEDS = (101, -101, 102, -102)
_TRACES, _KEPT = "traces", "kept"


@dataclass(frozen=True)
class Reference:
    """The reference trace, and those of the reruns with rounding-sized noise (none in the exact tier).

    `notes` are what a verdict says of how they were made.
    """

    trace: RunTrace
    perturbed: tuple[RunTrace, ...] = ()
    notes: tuple[str, ...] = ()

    def tolerance(self) -> Tolerance:
        """Exact without reruns, else derived from them."""
        return Derived(self.trace, self.perturbed) if self.perturbed else Exact()


def reference_of(program: Program, *, seed: int, perturbed: bool, timeout: float) -> Reference:
    """Run the program under the default strategy on one CPU device, or take the run of the same program from the cache.

    It is run twice without noise, since numbers that are others in each run can be neither right nor wrong. Where the
    two differ, but not on a single thread, all runs of the reference are made on one.

    Args:
        program: what to run.
        seed: as in the run that is to be judged.
        perturbed: whether the runs with noise are needed.
        timeout: seconds for each run.

    Raises:
        NothingObserved: the program reported nothing.
        NotReproducible: its numbers differ from run to run.
        RunFailed: the program fails even on one device.
    """
    directory = cache_directory() / f"{program.digest}-{seed}"
    directory.mkdir(parents=True, exist_ok=True)
    with FileLock(directory / "lock"):
        runs, differing = _reproducible(_Runs(program, directory, seed, timeout))
        noises = NOISE_SEEDS if perturbed else ()
        for batch in _batches([f"noise-{noise}" for noise in noises], max(1, os.cpu_count() or 1)):
            runs.make(batch)
        reference = read_reference(runs.trace("plain"), [runs.trace(f"noise-{noise}") for noise in noises])
    return replace(reference, notes=_notes(reference.trace, differing))


def read_reference(plain: Path, perturbed: Sequence[Path]) -> Reference:
    """Read a reference from its trace files."""
    return Reference(
        trace=merge([read_client(plain)]), perturbed=tuple(merge([read_client(file)]) for file in perturbed)
    )


def _batches(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]


@dataclass(frozen=True)
class _Runs:
    """The runs of one reference, each in a folder of its own that says when it is complete."""

    program: Program
    directory: Path
    seed: int
    timeout: float
    threads: int | None = None

    def trace(self, name: str) -> Path:
        """The trace file of a run."""
        return self._folder(name) / _TRACES / "local-0.trace"

    def _folder(self, name: str) -> Path:
        return self.directory / (name if self.threads is None else f"{name}-{self.threads}-thread")

    def make(self, names: Sequence[str]) -> None:
        """Run those of these that are not there yet, at the same time; an interruption ends them all."""
        missing = [name for name in names if not (self._folder(name) / "done").exists()]
        case = strategy_case("default")
        with contextlib.ExitStack() as stack:
            runs: list[tuple[Path, Run]] = []
            for name in missing:
                cluster = stack.enter_context(Cluster(case.topology, timeout=self.timeout))
                work = (run_client, self.program, case, self._assignment(name))
                runs.append((self._folder(name), stack.enter_context(cluster.start(*work))))
            for folder, run in runs:
                try:
                    result = run.join()
                except RunFailed as failure:
                    during = "the reference run (default strategy, one device)"
                    raise RunFailed(failure.causes, failure.result, stacks=failure.stacks, during=during) from failure
                if not result["local:0"].value["observed"]:
                    raise NothingObserved(self.program.name)
                (folder / "done").touch()

    def _assignment(self, name: str) -> Assignment:
        folder = self._folder(name)
        shutil.rmtree(folder, ignore_errors=True)
        for inner in (_TRACES, _KEPT):
            (folder / inner).mkdir(parents=True)
        noise = int(name.removeprefix("noise-")) if name.startswith("noise-") else None
        return Assignment(str(folder / _TRACES), str(folder / _KEPT), self.seed, noise, threads=self.threads)

    def difference(self) -> str | None:
        """Run without noise twice, and say where the two differ first; found once and then kept."""
        known = self._folder("again") / "difference"
        if not known.exists():
            self.make(["plain", "again"])
            found = first_difference(read_client(self.trace("plain")), read_client(self.trace("again")))
            known.write_text(found or "", encoding="utf-8")
            shutil.rmtree(self.trace("again").parent)
        return known.read_text(encoding="utf-8") or None


def _reproducible(runs: _Runs) -> tuple[_Runs, str | None]:
    """The runs to be used, and where those on several threads differ.

    Raises:
        NotReproducible: those on a single thread differ too.
    """
    differing = runs.difference()
    if differing is None:
        return runs, None
    alone = replace(runs, threads=1)
    if (still := alone.difference()) is not None:
        raise NotReproducible(still)
    return alone, differing


def _notes(reference: RunTrace, differing: str | None) -> tuple[str, ...]:
    found = []
    if differing is not None:
        found.append(
            f"the reference ran on a single thread, because on several its numbers are others in each run: {differing}"
        )
    if drawn := reference.clients[0].counters.unseeded:
        times = "once" if drawn == 1 else f"{drawn} times"
        found.append(
            f"NumPy was asked for a random generator without a seed {times}, and got one that Lockstep seeds, so that "
            "runs can be compared; workers other than the first draw other numbers, as they do in a cluster"
        )
    return tuple(found)


def cache_directory() -> Path:
    """Where reference runs are kept: `LOCKSTEP_CACHE`, shared within a test session, else one of this process."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given) if given else _own_directory()


@lru_cache(maxsize=1)
def _own_directory() -> Path:
    return make_scratch("references")
