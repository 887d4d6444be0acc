"""The truth to compare with: the same program under the default strategy, run as often as needed, and kept."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from harness.errors import NoRoom, NotReproducible
from harness.evidence.independence import Touch, check_independent
from harness.evidence.reference import Reference, ReferenceFiles, read_reference
from harness.evidence.trace import RunTrace
from harness.running.depends import environment_digest
from harness.running.elsewhere import Interpreter, asked_elsewhere
from harness.running.repeated import OTHER_KERNELS, PLAIN, TF32, Runs, noisy, reproducible
from harness.running.room import RERUNS
from harness.subject.program import Program
from simulator import RunFailed, UsageError
from simulator.machines.local.host import cores
from simulator.machines.local.scratch import make_scratch

__all__ = [
    "CACHE_VARIABLE",
    "FIRST_SEEDS",
    "MORE_SEEDS",
    "TF32_NOTE",
    "cache_directory",
    "left_reference",
    "notes_of",
    "reference_of",
]

CACHE_VARIABLE = "LOCKSTEP_CACHE"
# An opposite pair, for where rounding can turn a sign; see harness.recording.noise.
FIRST_SEEDS = (101, -101)
# Nothing is known of the devices in a trace of an earlier version.
_ONE_CPU = ((), ("cpu:1",))
# Each of which is another draw.
MORE_SEEDS = (102, 103, 104)


def reference_of(
    program: Program,
    *,
    seed: int,
    perturbed: bool,
    timeout: float,
    check: bool = False,
    more: bool = False,
    kernels: bool = False,
    tf32: bool = False,
    hardware: str = "cpu",
    beside: int = 0,
    python: Interpreter | None = None,
    known: Mapping[str, Sequence[Touch]] | None = None,
) -> Reference:
    """Run the program under the default strategy on one device, or take the run of the same program from the cache.

    What a first look needs are the plain run and two with noise. Accepting a run takes no more: a bound that is too
    small by accident accepts less. Only who is about to accuse, or could judge little, asks for a `check` that two
    equal runs give the same numbers, which is made if the runs until then leave that in doubt, and for `more` noise.
    Where two equal runs differ, but not on a single thread, all runs of the reference are made on one.

    Args:
        program: what to run.
        seed: as in the run that is to be judged.
        perturbed: whether the runs with noise are needed.
        timeout: seconds for each run.
        check: whether to make sure that equal runs are equal.
        more: whether to make more runs with noise than two.
        kernels: whether the run that is to be judged computes with other kernels than a CPU's. How far right ones may
            differ then counts as noise: one run more uses TensorFlow's other kernels.
        tf32: whether it computes products of float32 in TF32. How far that is from float32 then counts as noise: one
            run more has factors that are rounded so.
        hardware: what the reference computes on.
        beside: how many files as large as its own trace the disk has to have room for, besides those of a reference.
        python: of another environment, in which all runs of the reference are made.
        known: what runs that were made before have done with files, by what a sentence calls each.

    Raises:
        NothingObserved: the program reported nothing.
        NoRoom: the disk has none for all of that.
        NotReproducible: its numbers differ from run to run.
        SharedState: one of these runs has read what another one had written.
        RunFailed: the program fails even on one device.
        UsageError: another environment has no such program.
    """
    asked: dict[str, Any] = {"seed": seed, "perturbed": perturbed, "timeout": timeout, "check": check, "more": more}
    asked |= {"kernels": kernels, "tf32": tf32, "hardware": hardware, "beside": beside}
    if python is None:
        left = left_reference(program, **asked, known=known)
    else:
        left = asked_elsewhere(program, asked, python, cache_directory())
    with _locked(Path(left.directory)):
        return replace(left.read(), python=None if python is None else python.path)


def left_reference(
    program: Program,
    *,
    seed: int,
    perturbed: bool,
    timeout: float,
    check: bool,
    more: bool,
    kernels: bool,
    tf32: bool,
    hardware: str,
    beside: int,
    known: Mapping[str, Sequence[Touch]] | None = None,
) -> ReferenceFiles:
    """Make the runs of a reference as of `reference_of`, and say where they are."""
    place = "" if hardware == "cpu" else f"-{hardware}"
    directory = cache_directory() / f"{program.digest}-{seed}-{environment_digest()}{place}"
    with _locked(directory):
        names = [noisy(noise) for noise in FIRST_SEEDS] if perturbed else []
        others = [OTHER_KERNELS] * (perturbed and kernels) + [TF32] * (perturbed and tf32)
        # The first two at once, if there is a core for each.
        at_once = [PLAIN, *names[: min(1, cores() - 1)]]
        beside += len(others) + _beside_plain(perturbed) - len(at_once[1:])
        runs, differing = Runs(program, directory, seed, timeout, hardware=hardware, beside=beside), None
        try:
            runs.make_apart(at_once)
            runs.furthest(names, doubts=True)
            doubt = check and not (names and not any(map(runs.in_doubt, names)))
            if doubt:
                runs, differing = reproducible(runs)
            reruns = runs.furthest(names)
            if perturbed and more:
                # A second plain run stands for one of those with noise: six are enough.
                seeds = MORE_SEEDS[:-1] if doubt else MORE_SEEDS
                reruns += runs.furthest([noisy(noise) for noise in seeds])
            runs.make_all(others)
        except NoRoom:
            runs.remove_unfinished()
            raise
        except (NotReproducible, RunFailed):  # what another one had left may be why
            check_independent(program.name, {**(known or {}), **runs.touched()})
            raise
        touched = runs.touched()
        check_independent(program.name, touched)
        plain = runs.trace(PLAIN)
        notes = notes_of(read_reference(plain, []).trace, differing) + ((TF32_NOTE,) if tf32 else ())
    return ReferenceFiles(
        str(directory),
        str(plain),
        tuple(map(str, [*reruns, *map(runs.trace, others)])),
        notes,
        {run: tuple(touches) for run, touches in touched.items()},
        runs.threads,
        kernels,
        tf32,
        hardware,
    )


def _beside_plain(perturbed: bool) -> int:
    """How many more files like that of the plain run a reference has at most, at a time.

    The reruns with noise, and one that is being made; in the exact tier the second plain run.
    """
    return RERUNS + 1 if perturbed else 1


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


TF32_NOTE = (
    "TF32 is on: products of float32 have factors with 10 bits of mantissa, and what that changes is allowed for, so "
    "that only larger errors are found than without it"
)


def notes_of(reference: RunTrace, differing: str | None) -> tuple[str, ...]:
    """What a reader of the verdict should know of how a reference was made.

    Args:
        reference: its plain run.
        differing: where those on several threads differ, None if they do not.
    """
    found = [] if (header := reference.header).devices in _ONE_CPU else [f"the reference ran on {header.devices[0]}"]
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
