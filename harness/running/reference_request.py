"""Makes the runs of one reference, in this Python or, asked from another one, in that."""

from __future__ import annotations

import msgspec

from harness.errors import NoRoom, NotReproducible
from harness.evidence.independence import check_independent
from harness.evidence.reference import ReferenceFiles
from harness.evidence.trace import ClientTrace, read_client
from harness.running.reference_runs import PLAIN, Runs, noisy, reproducible
from simulator import RunFailed

# An opposite pair, for where rounding can turn a sign; see harness.recording.noise.
FIRST_SEEDS = (101, -101)
# Each of which is another draw.
MORE_SEEDS = (102, 103, 104)
# Nothing is known of the devices in a trace of an earlier version.
_ONE_CPU = ((), ("cpu:1",))


class ReferenceRequest(msgspec.Struct, frozen=True):
    """What a reference needs besides a plain run.

    Attributes:
        noise: how many runs with noise.
        others: the names of other runs, as of `harness.running.reference_runs`.
        sure: whether two equal runs have to give the same numbers. Where they do not, but do so on a single thread, all
            runs are made on one.
    """

    noise: int = 0
    others: tuple[str, ...] = ()
    sure: bool = False


def make_runs(runs: Runs, wanted: ReferenceRequest) -> ReferenceFiles:
    """Make those that are not there yet, and say where they are.

    Raises:
        NothingObserved: the program reported nothing.
        NoRoom: the disk has none for all of that.
        NotReproducible: its numbers differ from run to run.
        SharedState: one of these runs has read what another one had written.
        RunFailed: the program fails on one device.
    """
    differing = None
    try:
        runs.make_apart([PLAIN])
        if wanted.sure:
            runs, differing = reproducible(runs)
        more = [*(noisy(seed) for seed in (*FIRST_SEEDS, *MORE_SEEDS)[: wanted.noise]), *wanted.others]
        runs.make_all(more)
    except NoRoom:
        runs.remove_unfinished()
        raise
    except (NotReproducible, RunFailed):  # what another one had left may be why
        check_independent(runs.program.name, runs.touched())
        raise
    plain = runs.trace(PLAIN)
    return ReferenceFiles(
        str(plain),
        tuple(str(runs.trace(name)) for name in more),
        notes_of(read_client(plain), differing),
        {run: tuple(touches) for run, touches in runs.touched().items()},
        runs.threads,
    )


def notes_of(plain: ClientTrace, differing: str | None) -> tuple[str, ...]:
    """What a reader of the verdict should know of how a reference was made.

    Args:
        plain: its run without noise.
        differing: where two of these on several threads differ, None if they do not.
    """
    found = [] if plain.header.devices in _ONE_CPU else [f"the reference ran on {plain.header.devices[0]}"]
    if differing is not None:
        found.append(
            f"the reference ran on a single thread, because on several its numbers are others in each run: {differing}"
        )
    if drawn := plain.counters.unseeded:
        times = "once" if drawn == 1 else f"{drawn} times"
        found.append(
            f"NumPy was asked for a random generator without a seed {times}, and got one that Lockstep seeds, so that "
            "runs can be compared; workers other than the first draw other numbers, as they do in a cluster"
        )
    return tuple(found)
