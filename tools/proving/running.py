"""One program from its file to what is inferred of it, and whether that is so."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness import prove
from simulator import LockstepError

Line = Literal["right", "wrong", "none"]


class Found(msgspec.Struct, frozen=True):
    """What was inferred of one program; `mistake` is None if it is right."""

    name: str
    mistake: str | None
    status: str
    line: Line = "none"
    conditions: tuple[str, ...] = ()
    why: str = ""
    open_operations: tuple[str, ...] = ()
    operations: dict[str, int] = {}
    tracing_seconds: float = 0.0
    inferring_seconds: float = 0.0
    seconds: float = 0.0


def as_expected(found: Found) -> bool:
    """Whether nothing wrong is proved without a condition, and nothing right refuted."""
    return found.status != ("refuted" if found.mistake is None else "proved")


def found_of(trial: Any) -> Found:
    """Prove a program and compare what is said of it with the catalogue."""
    began = time.monotonic()
    try:
        proof = prove(trial.program, trial.strategy, timeout=180.0)
    except LockstepError as error:
        why = str(error).splitlines()[0]
        return Found(trial.name, trial.mistake, "failed", why=why, seconds=time.monotonic() - began)
    first = proof.suspects[0] if proof.suspects else None
    place = None if first is None else first.place
    line: Line = "none"
    if place is not None:
        line = "right" if Path(place.file).name == trial.file.name and place.line in trial.guilty else "wrong"
    why = proof.reasons[0] if proof.reasons else "" if first is None else first.why
    if first is not None and first.counterexample is not None:
        why = f"{first.counterexample.text}"
    return Found(
        name=trial.name,
        mistake=trial.mistake,
        status=proof.status,
        line=line,
        conditions=tuple(each.text for each in proof.conditions),
        why=why,
        open_operations=proof.open_operations,
        operations=dict(proof.operations),
        tracing_seconds=proof.tracing_seconds,
        inferring_seconds=proof.inferring_seconds,
        seconds=time.monotonic() - began,
    )
