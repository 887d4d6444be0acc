"""The truth to compare with: the same program under the default strategy, run once and kept."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from filelock import FileLock

from harness._client import Assignment, run_client
from harness.errors import NothingObserved
from harness.program import Program
from harness.strategies import strategy_case
from harness.tolerance import Derived, Exact, Tolerance
from harness.trace import RunTrace, merge, read_client
from simulator import Cluster, Run, RunFailed, UsageError
from simulator.scratch import make_scratch

__all__ = ["CACHE_VARIABLE", "NOISE_SEEDS", "Reference", "read_reference", "reference_of"]

CACHE_VARIABLE = "LOCKSTEP_CACHE"
# Two opposite pairs; see harness._noise.
NOISE_SEEDS = (101, -101, 102, -102)
_TRACES, _KEPT = "traces", "kept"


@dataclass(frozen=True)
class Reference:
    """The reference trace, and those of the reruns with rounding-sized noise (none in the exact tier)."""

    trace: RunTrace
    perturbed: tuple[RunTrace, ...] = ()

    def tolerance(self) -> Tolerance:
        """Exact without reruns, else derived from them."""
        return Derived(self.trace, self.perturbed) if self.perturbed else Exact()


def reference_of(program: Program, *, seed: int, perturbed: bool, timeout: float) -> Reference:
    """Run the program under the default strategy on one CPU device, or take the run of the same program from the cache.

    Args:
        program: what to run.
        seed: as in the run that is to be judged.
        perturbed: whether the runs with noise are needed.
        timeout: seconds for each run.

    Raises:
        NothingObserved: the program reported nothing.
        RunFailed: the program fails even on one device.
    """
    noises = (None, *NOISE_SEEDS) if perturbed else (None,)
    directory = cache_directory() / f"{program.digest}-{seed}"
    with _locked(directory):
        missing = [noise for noise in noises if not (directory / _folder(noise) / "done").exists()]
        # The plain run first and alone: if the program is wrong, its error is the simplest here.
        for batch in (missing[:1], *_batches(missing[1:], max(1, os.cpu_count() or 1))):
            _run_together(program, directory, batch, seed, timeout)
    files = [directory / _folder(noise) / _TRACES / "local-0.trace" for noise in noises]
    return read_reference(files[0], files[1:])


def read_reference(plain: Path, perturbed: Sequence[Path]) -> Reference:
    """Read a reference from its trace files."""
    return Reference(
        trace=merge([read_client(plain)]), perturbed=tuple(merge([read_client(file)]) for file in perturbed)
    )


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


def _folder(noise: int | None) -> str:
    return "plain" if noise is None else f"noise-{noise}"


def _batches(noises: Sequence[int | None], size: int) -> list[Sequence[int | None]]:
    return [noises[start : start + size] for start in range(0, len(noises), size)]


def _run_together(program: Program, directory: Path, noises: Sequence[int | None], seed: int, timeout: float) -> None:
    """Run the program with each of these noises at the same time; an interruption ends them all."""
    case = strategy_case("default")
    with contextlib.ExitStack() as stack:
        runs: list[tuple[Path, Run]] = []
        for noise in noises:
            folder = directory / _folder(noise)
            shutil.rmtree(folder, ignore_errors=True)
            for name in (_TRACES, _KEPT):
                (folder / name).mkdir(parents=True)
            assignment = Assignment(str(folder / _TRACES), str(folder / _KEPT), seed, noise)
            cluster = stack.enter_context(Cluster(case.topology, timeout=timeout))
            runs.append((folder, stack.enter_context(cluster.start(run_client, program, case, assignment))))
        for folder, run in runs:
            try:
                result = run.join()
            except RunFailed as failure:
                during = "the reference run (default strategy, one device)"
                raise RunFailed(failure.causes, failure.result, stacks=failure.stacks, during=during) from failure
            if not result["local:0"].value["observed"]:
                raise NothingObserved(program.name)
            (folder / "done").touch()


def cache_directory() -> Path:
    """Where reference runs are kept: `LOCKSTEP_CACHE`, shared within a test session, else one of this process."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given) if given else _own_directory()


@lru_cache(maxsize=1)
def _own_directory() -> Path:
    return make_scratch("references")
