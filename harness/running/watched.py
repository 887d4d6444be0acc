"""Runs a program and its reference once more, until the end of one step of which every operation is watched."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.evidence.trace import chief_first
from harness.evidence.watched import Watched, read_watched
from harness.recording.client import Assignment
from harness.recording.watch import Watching
from harness.running.clients import client_of, viewed
from harness.running.reference import FIRST_SEEDS
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, strategy_case
from simulator import Cluster, Run
from simulator.machines.local.host import cores
from simulator.machines.local.scratch import scratch

__all__ = ["Sight", "watch_step"]

_PLAIN = "plain"
# By how much a watched run may take longer than one that is not.
_SLOWER = 3.0


@dataclass(frozen=True)
class Sight:
    """A watched step: of the run, of its reference, and of the reference with noise."""

    clients: tuple[Watched, ...]
    reference: Watched
    noisy: tuple[Watched, ...]


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
) -> Sight:
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

    Raises:
        RunFailed: one of them failed.
    """
    with scratch("watched") as place:
        kinds: list[tuple[str, StrategyCase, int | None]] = [
            ("run", case, None),
            (_PLAIN, strategy_case("default"), None),
        ]
        kinds += [(f"noise{seed:+}", strategy_case("default"), seed) for seed in FIRST_SEEDS]
        size = max(1, cores())
        for start in range(0, len(kinds), size):
            batch = kinds[start : start + size]
            with contextlib.ExitStack() as stack:
                runs: list[Run] = []
                for name, under, noise in batch:
                    cluster = stack.enter_context(Cluster(under.topology, timeout=_SLOWER * timeout))
                    bound = None if under is case else threads
                    watching = Watching(step, str(place / name / "watched"), last)
                    assignment = _assignment(place / name, seed, noise, bound, watching, witness=not reports)
                    view = stack.enter_context(viewed(program, place / name))
                    assignment = msgspec.structs.replace(assignment, view=view)
                    runs.append(stack.enter_context(cluster.start(client_of(program), program, under, assignment)))
                for run in runs:
                    run.join()
        found = {name: _read(place / name) for name, _, _ in kinds}
    noisy = tuple(watched for name, (watched, *_) in found.items() if name.startswith("noise"))
    return Sight(tuple(found["run"]), found[_PLAIN][0], noisy)


def _assignment(
    place: Path, seed: int, noise: int | None, threads: int | None, watching: Watching, *, witness: bool
) -> Assignment:
    traces, kept = place / "traces", place / "kept"
    for folder in (traces, kept, Path(watching.path)):
        folder.mkdir(parents=True)
    return Assignment(
        traces=str(traces),
        directory=str(kept),
        seed=seed,
        noise=noise,
        threads=threads,
        watching=watching,
        witness=witness,
    )


def _read(place: Path) -> Sequence[Watched]:
    found = [read_watched(path) for path in (place / "watched").glob("*.watched")]
    return sorted(found, key=lambda watched: chief_first(watched.task))
