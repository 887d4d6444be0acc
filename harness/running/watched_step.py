"""Runs a program and its reference once more, until the end of one step of which every operation is watched."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness.evidence.bindings import Bindings, read_bindings
from harness.evidence.parts import TRACES
from harness.evidence.steps import FOR_ALL, Standing, segment_of
from harness.evidence.trace import chief_first
from harness.evidence.watch_request import WatchRequest
from harness.evidence.watched_step import WatchedStep, joined, read_watched
from harness.recording.client import Assignment
from harness.recording.watch import WatchOrder
from harness.running.clients import client_of, viewed
from harness.running.reference_request import FIRST_SEEDS
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, strategy_case
from simulator import Cluster, Run
from simulator.machines.local.host import cores
from simulator.machines.local.scratch import scratch

LOOKS = 12_000
"""As many operations of graphs are looked at in one run, of each process.

Of ResNet50 under two replicas, which has 21,000, in tasks of less than 2 GB.
"""

_OF_RUN, _PLAIN = "run", "plain"
_Kind = tuple[str, StrategyCase, int | None]
"""A name, a strategy, and a seed of noise."""
_Seen = TypeVar("_Seen", WatchedStep, Bindings)
# By how much a watched run may take longer than one that is not.
_SLOWER = 3.0


@dataclass(frozen=True)
class WatchedRuns:
    """A watched step: of the run, of its reference, and of the reference with noise."""

    clients: tuple[WatchedStep, ...]
    reference: WatchedStep
    noisy: tuple[WatchedStep, ...]

    def joined(self, again: WatchedRuns, chosen: WatchRequest) -> WatchedRuns:
        """With what was seen when the step was watched again.

        Raises:
            ValueError: other operations were made then.
        """
        return WatchedRuns(
            tuple(map(joined, self.clients, again.clients, chosen.clients)),
            joined(self.reference, again.reference, chosen.reference),
            tuple(map(joined, self.noisy, again.noisy, chosen.noisy)),
        )


def watch_step(
    program: Program,
    case: StrategyCase,
    *,
    step: int,
    last: bool = False,
    seed: int,
    timeout: float,
    threads: int | None = None,
    reports: bool = True,
    looks: int = LOOKS,
    again: tuple[WatchedRuns, WatchRequest] | None = None,
    standing: Standing | None = None,
) -> WatchedRuns:
    """Watch one step, as often as is needed to know what rounding does to it.

    Args:
        program: what has been run.
        case: under what strategy.
        step: from 1.
        last: whether the step ends with the program.
        seed: as of the run that was judged.
        timeout: seconds for each of the runs.
        threads: that TensorFlow's pools have in the reference, None for as many as there are.
        reports: whether the program reports its steps; of one that does not they are those that the harness sees.
        looks: how many operations of graphs are looked at in each process, the first ones. The others are noted.
        standing: of a reference that follows the run; None of one that does not.
        again: instead of these, which ones are looked at now, by what was seen of the step before.

    Raises:
        RunFailed: one of them failed.
    """
    with scratch("watched") as place:
        beside = strategy_case((standing or FOR_ALL).strategy("default"))
        kinds: list[_Kind] = [(_OF_RUN, case, None), (_PLAIN, beside, None)]
        kinds += [(_noisy(seed), beside, seed) for seed in FIRST_SEEDS]
        only = {} if again is None else _by_task(*again)
        # Who follows waits for the run; then all of them begin at once.
        size, first = (3, 1) if standing is not None else (max(1, cores()), 0)
        batches = [kinds[:1]] * first + [kinds[at : at + size] for at in range(first, len(kinds), size)]

        def watching(name: str) -> WatchOrder:
            return WatchOrder(step, str(place / name / "watched"), last, looks, only.get(name), reports)

        about: dict[str, Any] = {"seed": seed, "timeout": timeout, "threads": threads, "reports": reports}
        _run(program, case, place, batches, watching, standing=standing, **about)
        found = {name: _read(place / name, read_watched) for name, _, _ in kinds}
    noisy = tuple(watched for name, (watched, *_) in found.items() if name.startswith("noise"))
    return WatchedRuns(tuple(found[_OF_RUN]), found[_PLAIN][0], noisy)


def watch_by_hand(
    program: Program, case: StrategyCase, *, step: int, last: bool, standing: Standing | None, **about: Any
) -> tuple[list[Bindings], Bindings]:
    """Watch what the program's own Python binds until the end of a step: of all clients, and of the reference.

    Args:
        program: what has been run.
        case: under what strategy.
        step: from 1.
        last: whether the step ends with the program.
        standing: as of `watch_step`.
        about: `seed`, `timeout`, `threads` and `reports`, as of `watch_step`.

    Raises:
        RunFailed: one of them failed.
    """
    kinds: list[_Kind] = [(_OF_RUN, case, None), (_PLAIN, strategy_case(case.family.reference), None)]
    with scratch("watched") as place:

        def watching(name: str) -> WatchOrder:
            return WatchOrder(step, str(place / name / "watched"), last, reports=about["reports"])

        _run(program, case, place, [kinds[:1], kinds[1:]], watching, standing=standing, **about)
        run, reference = (_read(place / name, read_bindings) for name, _, _ in kinds)
        return run, reference[0]


def _run(
    program: Program,
    case: StrategyCase,
    place: Path,
    batches: Sequence[Sequence[_Kind]],
    watching: Callable[[str], WatchOrder],
    *,
    seed: int,
    timeout: float,
    threads: int | None,
    reports: bool,
    standing: Standing | None,
) -> None:
    """Run the program in each of these ways, those of one batch at once."""
    for batch in batches:
        with contextlib.ExitStack() as stack:
            runs: list[Run] = []
            for name, under, noise in batch:
                cluster = stack.enter_context(Cluster(under.topology, timeout=_SLOWER * timeout))
                judged = name == _OF_RUN
                bound = None if judged else threads
                told: dict[str, Any] = {"witness": not reports, "standing": (not judged and standing) or FOR_ALL}
                told["keeps"] = None if standing is None else judged
                assignment = _assignment(place, name, seed, noise, bound, watching(name), **told)
                view = stack.enter_context(viewed(program, place / name))
                assignment = msgspec.structs.replace(assignment, view=view)
                runs.append(stack.enter_context(cluster.start(client_of(program), program, under, assignment)))
            for run in runs:
                run.join()


def _by_task(sight: WatchedRuns, chosen: WatchRequest) -> dict[str, dict[str, tuple[int, ...]]]:
    """What is chosen by the names of the runs and of their tasks."""
    pairs = [(_PLAIN, sight.reference, chosen.reference)]
    pairs += [(_OF_RUN, each, numbers) for each, numbers in zip(sight.clients, chosen.clients, strict=True)]
    pairs += [
        (_noisy(seed), each, numbers)
        for seed, each, numbers in zip(FIRST_SEEDS, sight.noisy, chosen.noisy, strict=True)
    ]
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, watched, numbers in pairs:
        found.setdefault(name, {})[watched.task] = tuple(sorted(numbers))
    return found


def _noisy(seed: int) -> str:
    return f"noise{seed:+}"


def _assignment(
    place: Path,
    name: str,
    seed: int,
    noise: int | None,
    threads: int | None,
    watching: WatchOrder,
    *,
    keeps: bool | None,
    witness: bool,
    standing: Standing,
) -> Assignment:
    """That of a run; `keeps` is whether it keeps the evidence of its steps or follows that, None if it does neither."""
    traces, kept = place / name / TRACES, place / name / "kept"
    for folder in (traces, kept, Path(watching.path)):
        folder.mkdir(parents=True)
    return Assignment(
        traces=str(traces),
        directory=str(kept),
        seed=seed,
        noise=noise,
        threads=threads,
        watching=watching,
        witness=witness or keeps is not None,
        keeps=bool(keeps),
        standing=standing,
        follows=(segment_of(place / _OF_RUN / TRACES),) if keeps is False else (),
    )


def _read(place: Path, read: Callable[[Path], _Seen]) -> list[_Seen]:
    found = [read(path) for path in (place / "watched").glob("*.watched")]
    return sorted(found, key=lambda each: chief_first(each.task))
