"""Runs a case: a training that is watched and has a fault, and its judge, which knows nothing of that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tools.planting.cases import EVERY, Case

_PROGRAM = Path(__file__).with_name("program.py")
_LOCKSTEP = (sys.executable, "-c", "import sys; from _lockstep.command import main; sys.exit(main())")
_TIMEOUT = 900.0


class Result(msgspec.Struct, frozen=True):
    """What was found of a case.

    Attributes:
        name: of the case.
        kind: of it.
        found: whether anything was.
        step: whether at the right step first.
        replica: whether the right replica was named, and no other; of what all replicas did, that none was.
        said: each finding.
        judged: steps that were.
        seconds: of the training and of its judge.
        replicas: of the training.
    """

    name: str
    kind: str
    found: bool
    step: bool
    replica: bool
    said: tuple[str, ...]
    judged: int
    seconds: tuple[float, float]
    replicas: int = 2


def result_of(case: Case) -> Result:
    """Run a case.

    Raises:
        ChildProcessError: the training or the judge failed.
    """
    with tempfile.TemporaryDirectory(prefix="lockstep-planted-") as place:
        began = time.monotonic()
        planted = {"PLANTED": json.dumps({"kind": case.kind, "step": case.step})}
        if case.kind == "statistics":  # which are lost in a restart after this step
            _train(case, place, case.step + EVERY // 2, {}, "saved", str(case.step))
            _train(case, place, case.steps - case.step, planted, "saved")
        else:
            _train(case, place, case.steps, planted)
        if case.kind == "file":
            _turn(case, Path(place, "left"))
        trained = time.monotonic()
        lines = _lockstep(place, ["judge", "left", "--json"], {}, codes=(0, 1, 5)).splitlines()
        seconds = (trained - began, time.monotonic() - trained)
        return judged_as(case, [json.loads(line) for line in lines], seconds)


def _train(case: Case, place: str, steps: int, environ: Mapping[str, str], *more: str) -> None:
    count = str(case.replicas)
    cluster = ["--worker", count] if case.strategy == "multi_worker" else ["--devices", f"cpu:{count}"]
    faults = [] if case.fault is None else ["--fault", case.fault]
    told = ["--every", str(case.every), "--out", "left", "--quiet", *faults]
    program = ["--", "python", str(_PROGRAM), case.strategy, count, str(steps), str(case.rows), *more]
    _lockstep(place, ["watch", *cluster, *told, *program], environ)


def _lockstep(place: str, words: Sequence[str], environ: Mapping[str, str], codes: Sequence[int] = (0,)) -> str:
    environment = {**os.environ, **environ}
    done = subprocess.run(
        [*_LOCKSTEP, *words],
        cwd=place,
        env=environment,
        timeout=_TIMEOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in codes:
        raise ChildProcessError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _turn(case: Case, left: Path) -> None:
    """Turn over one bit of the evidence that a task has left of a step."""
    folder = left / ("local-0.0" if case.strategy == "mirrored" else f"worker-{case.replica}.0")
    file = folder / f"{case.step}.step"
    data = bytearray(file.read_bytes())
    data[len(data) // 2 + case.element] ^= 1 << case.bit % 8
    file.write_bytes(data)


def judged_as(case: Case, steps: Sequence[dict[str, Any]], seconds: tuple[float, float]) -> Result:
    """What the lines of a judge say of a case, that took so long."""
    findings = [(step, each) for step in steps for each in step.get("findings", ())]
    said = [f"{step['training']}/{step['step']}: {each['text']} ({each.get('replica')})" for step, each in findings]
    if case.kind == "file":  # which is no fault of the training
        told = [step for step in steps if step["outcome"] == "abstained"]
        said += [f"{step['step']}: {step['why']}" for step in told]
        right = not findings and [step["step"] for step in told] == [case.step]
        return Result(case.name, case.kind, bool(told), right, right, tuple(said), len(steps), seconds, case.replicas)
    named = {each["replica"] for _, each in findings if each.get("replica") is not None}
    expected = {case.who} if case.fault is not None else set[str]()
    first = min(((step["training"], step["step"]) for step, _ in findings), default=None)
    count = sum(not step.get("by_digest", False) for step in steps)
    right = first in _due(case)
    is_named = named == expected
    return Result(case.name, case.kind, bool(findings), right, is_named, tuple(said), count, seconds, case.replicas)


def _due(case: Case) -> list[tuple[int, int] | None]:
    """The steps at which a fault may first be found."""
    if case.kind == "weight":  # between this step and the next one
        return [(0, case.step), (0, case.step + 1)]
    if case.kind == "rate":
        return [(0, -(-case.step // EVERY) * EVERY)]
    if case.kind == "statistics":
        return [(1, 1)]
    return [None] if case.kind == "healthy" else [(0, case.step)]
