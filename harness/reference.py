"""The truth to compare with: the same program under the default strategy, run once and kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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
from simulator import Cluster, RunFailed
from simulator.scratch import make_scratch

__all__ = ["CACHE_VARIABLE", "NOISE_SEEDS", "Reference", "read_reference", "reference_of"]

CACHE_VARIABLE = "LOCKSTEP_CACHE"
# Two opposite pairs; see harness._noise.
NOISE_SEEDS = (101, -101, 102, -102)
_TRACES = "traces"


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
    directory.mkdir(parents=True, exist_ok=True)
    with FileLock(directory / "lock"):
        missing = [noise for noise in noises if not (directory / _folder(noise) / "done").exists()]
        # The plain run first and alone: if the program is wrong, its error is the simplest here.
        for batch in (missing[:1], missing[1:]):
            with ThreadPoolExecutor(max_workers=max(1, (os.cpu_count() or 1))) as pool:
                list(pool.map(lambda noise: _run(program, directory / _folder(noise), seed, noise, timeout), batch))
    files = [directory / _folder(noise) / _TRACES / "local-0.trace" for noise in noises]
    return read_reference(files[0], files[1:])


def read_reference(plain: Path, perturbed: Sequence[Path]) -> Reference:
    """Read a reference from its trace files."""
    return Reference(
        trace=merge([read_client(plain)]), perturbed=tuple(merge([read_client(file)]) for file in perturbed)
    )


def _folder(noise: int | None) -> str:
    return "plain" if noise is None else f"noise-{noise}"


def _run(program: Program, directory: Path, seed: int, noise: int | None, timeout: float) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    traces, kept = directory / _TRACES, directory / "kept"
    traces.mkdir(parents=True)
    kept.mkdir()
    case = strategy_case("default")
    with Cluster(case.topology, timeout=timeout) as cluster:
        assignment = Assignment(traces=str(traces), directory=str(kept), seed=seed, noise=noise)
        try:
            result = cluster.run(run_client, program, case, assignment)
        except RunFailed as failure:
            during = "the reference run (default strategy, one device)"
            raise RunFailed(failure.causes, failure.result, stacks=failure.stacks, during=during) from failure
    if not result["local:0"].value["observed"]:
        raise NothingObserved(program.name)
    (directory / "done").touch()


def cache_directory() -> Path:
    """Where reference runs are kept: `LOCKSTEP_CACHE`, shared within a test session, else one of this process."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given) if given else _own_directory()


@lru_cache(maxsize=1)
def _own_directory() -> Path:
    return make_scratch("references")
