"""The truth to compare with: the same program under the default strategy, run once and kept."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from filelock import FileLock

from harness.errors import NotReproducible
from harness.evidence.independence import check_independent
from harness.evidence.reference import Reference, read_reference
from harness.evidence.trace import RunTrace
from harness.running.repeated import PLAIN, Runs, reproducible
from harness.subject.program import Program
from simulator import RunFailed, UsageError
from simulator.machines.local.host import cores
from simulator.machines.local.scratch import make_scratch

__all__ = ["CACHE_VARIABLE", "NOISE_SEEDS", "reference_of"]

CACHE_VARIABLE = "LOCKSTEP_CACHE"
# Two opposite pairs; see harness.recording.noise.
NOISE_SEEDS = (101, -101, 102, -102)


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
        SharedState: one of these runs has read what another one had written.
        RunFailed: the program fails even on one device.
    """
    directory = cache_directory() / f"{program.digest}-{seed}"
    with _locked(directory):
        runs = Runs(program, directory, seed, timeout)
        noisy = [f"noise-{noise}" for noise in NOISE_SEEDS] if perturbed else []
        try:
            runs, differing = reproducible(runs)
            for batch in _batches(noisy, 1 if runs.reads_back else cores()):
                runs.make(batch)
        except (NotReproducible, RunFailed):  # what another one had left may be why
            check_independent(program.name, runs.touched())
            raise
        touched = runs.touched()
        check_independent(program.name, touched)
        reference = read_reference(runs.trace(PLAIN), [runs.trace(name) for name in noisy])
    notes = _notes(reference.trace, differing)
    return replace(reference, notes=notes, touched=touched, threads=runs.threads)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Make a directory of the cache, and let nobody else use it meanwhile."""
    lock = FileLock(directory / "lock")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise UsageError(
            f"reference runs cannot be kept in {directory.parent}: {error.strerror}; {CACHE_VARIABLE} names where"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _batches(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]


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
