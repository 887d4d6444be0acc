"""A verified run as files, which can be judged again later, elsewhere, and without TensorFlow."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from harness.parts import TRACES, Parts, read_parts
from harness.reference import Reference, read_reference
from harness.trace import write_client
from harness.verdict import Verdict
from simulator import UsageError

__all__ = ["VERDICT", "load_run", "save_run"]

VERDICT = "verdict.json"
_REFERENCE = "reference"


def save_run(directory: Path, verdict: Verdict, reference: Reference) -> None:
    """Put the verdict and the reference's traces beside the run's own traces."""
    shutil.rmtree(directory / _REFERENCE, ignore_errors=True)
    (directory / _REFERENCE).mkdir()
    for name, trace in [("plain", reference.trace), *_numbered(reference)]:
        write_client(directory / _REFERENCE / f"{name}.trace", trace.clients[0])
    (directory / VERDICT).write_bytes(msgspec.json.format(msgspec.json.encode(verdict.to_json())))


def _numbered(reference: Reference) -> list[tuple[str, Any]]:
    return [(f"noise-{number}", trace) for number, trace in enumerate(reference.perturbed)]


def load_run(directory: Path) -> tuple[Parts, Reference, dict[str, Any]]:
    """Read what `save_run` and the run itself have left.

    Returns:
        The run to judge, its reference, and the saved verdict in its JSON form.

    Raises:
        UsageError: the directory holds no saved run.
    """
    files = list((directory / TRACES).rglob("*.trace"))
    plain = directory / _REFERENCE / "plain.trace"
    if not files or not plain.exists() or not (directory / VERDICT).exists():
        raise UsageError(f"{directory} holds no saved run; make one with `lockstep verify ... --out {directory}`")
    reference = read_reference(plain, sorted((directory / _REFERENCE).glob("noise-*.trace")))
    saved: dict[str, Any] = msgspec.json.decode((directory / VERDICT).read_bytes())
    return read_parts(directory), replace(reference, notes=tuple(saved.get("notes", ()))), saved
