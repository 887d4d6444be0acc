"""A verified run as files, which can be judged again later, elsewhere, and without TensorFlow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from harness.damaged_files import reading
from harness.evidence.arrays import arrays_in
from harness.evidence.checksums import not_as_saved, note_sums
from harness.evidence.parts import TRACES, Parts, read_parts
from harness.evidence.reference import Reference, read_reference
from harness.evidence.steps.store import PART
from harness.evidence.trace import RunTrace
from harness.evidence.writing import write_client
from harness.judging.culprit import Culprit, Looked
from harness.judging.laws.protocol import Finding
from harness.judging.verdict import Verdict, broken_by
from harness.judging.wrong_steps import StepsAlone
from harness.relations import proof_again
from harness.run_directory import JUDGED, VERDICT
from harness.subject.strategies import has_servers
from simulator import UsageError

_REFERENCE = "reference"
_PLAIN = "plain.trace"
_EARLIER = "earlier-"


def save_run(directory: Path, verdict: Verdict, reference: Reference | None) -> None:
    """Put the verdict and the reference's traces beside the run's own traces, where none are yet, and checksums.

    Without a reference the verdict says why there is none.
    """
    if reference is not None:
        _write_reference(directory / _REFERENCE, reference)
    (directory / VERDICT).write_bytes(msgspec.json.format(msgspec.json.encode(verdict.to_json())))
    note_sums(directory, _judged_files(directory))


def _judged_files(directory: Path) -> list[Path]:
    return [path for pattern in JUDGED for path in directory.glob(pattern) if path.is_file() and path.suffix != PART]


def _write_reference(folder: Path, reference: Reference) -> None:
    folder.mkdir()
    for name, trace in [("plain", reference.trace), *_numbered(reference)]:
        write_client(folder / f"{name}.trace", trace.clients[0])
    for number, other in reference.earlier.items():
        _write_reference(folder / f"{_EARLIER}{number}", other)


def _read_reference(folder: Path) -> Reference:
    reference = read_reference(folder / _PLAIN, sorted(folder.glob("noise-*.trace")))
    for trace in (reference.trace, *reference.perturbed):
        _check_whole(trace)
    earlier = {int(each.name.removeprefix(_EARLIER)): _read_reference(each) for each in folder.glob(f"{_EARLIER}*")}
    return replace(reference, earlier=earlier)


def _numbered(reference: Reference) -> list[tuple[str, Any]]:
    return [(f"noise-{number}", trace) for number, trace in enumerate(reference.perturbed)]


class _Looked(msgspec.Struct):
    """When and why no culprit was named, as `Looked` writes it."""

    why_not: str | None
    seconds: float
    proved: str | None = None


class _Finding(msgspec.Struct):
    """What a law has found, without its numbers."""

    law: str
    text: str
    task: str | None = None
    step: int | None = None
    observable: str | None = None
    variable: str | None = None

    def found(self) -> Finding:
        return Finding(**msgspec.structs.asdict(self))


class _Needed(msgspec.Struct):
    """What of a saved verdict is not found again by judging the run."""

    program: str
    tasks: dict[str, dict[str, Any]]
    seconds: float
    faults: dict[str, Any] | None = None
    forced: bool = False
    wrong_steps: tuple[int, ...] | None = None
    right_steps: int = 0
    culprit: Culprit | None = None
    looked: _Looked | None = None
    abstained: str | None = None
    proof: dict[str, Any] | None = None
    strategy: str = ""
    consistent: bool = True
    findings: tuple[_Finding, ...] = ()


def load_run(directory: Path) -> tuple[Parts, Reference, dict[str, Any]]:
    """Read what `save_run` and the run itself have left.

    Returns:
        The run to judge, its reference, and the saved verdict in its JSON form.

    Raises:
        UsageError: the directory holds no saved run, or one that is damaged.
    """
    files = list((directory / TRACES).rglob("*.trace"))
    if not files or not (directory / _REFERENCE / _PLAIN).exists() or not (directory / VERDICT).exists():
        raise UsageError(f"{directory} holds no saved run; make one with `lockstep verify ... --out {directory}`")
    saved = _read_verdict(directory)
    with reading(directory / _REFERENCE):
        reference = _read_reference(directory / _REFERENCE)
    with reading(directory / TRACES):
        parts = read_parts(directory)
        _check_whole(parts.last)
    python = (saved.get("environments") or {}).get("reference_python")
    notes, tier = tuple(saved.get("notes", ())), saved.get("tier")
    return parts, replace(reference, notes=notes, python=python, tier=tier), saved


def unjudged(directory: Path) -> Verdict | None:
    """The saved verdict on a run for which there was no reference; None where there is one, or nothing.

    Raises:
        UsageError: it is damaged.
    """
    if (directory / _REFERENCE / _PLAIN).exists() or not (directory / VERDICT).exists():
        return None
    saved = _read_verdict(directory)
    known = msgspec.convert(saved, _Needed)
    if known.abstained is None:
        return None
    return Verdict(known.program, known.strategy, (), tolerance=saved["tier"], abstained=known.abstained)


def _read_verdict(directory: Path) -> dict[str, Any]:
    """The saved verdict; it and all that was saved with it is as it was."""
    if wrong := not_as_saved(directory, _judged_files(directory)):
        raise UsageError(wrong)
    with reading(directory / VERDICT):
        saved: dict[str, Any] = msgspec.json.decode((directory / VERDICT).read_bytes())
        msgspec.convert(saved, _Needed)
    return saved


def with_saved_findings(verdict: Verdict, saved: dict[str, Any], reference: Reference) -> Verdict:
    """A verdict with what its first judging knew of runs that were not saved.

    These are of each step by itself, of the operations of one that was watched, of a graph, and of a script on one
    device.
    """
    known = msgspec.convert(saved, _Needed)
    if known.proof is not None:
        verdict = replace(verdict, proof=proof_again(known.proof, verdict.program, verdict.strategy))
    if known.abstained is not None and verdict.abstained is None:
        nothing: dict[str, Any] = {"judgements": (), "explanation": None, "closest": None, "ledger": None}
        return replace(verdict, abstained=known.abstained, **nothing)
    if not known.consistent and verdict.outcome == "consistent" and has_servers(known.strategy):
        # What a coordinator's script does with a single worker was not saved.
        verdict = broken_by(verdict, [each.found() for each in known.findings])
    if known.looked is not None:
        verdict = verdict.seen(Looked(known.culprit, **msgspec.structs.asdict(known.looked)))
    if verdict.alone is not None or verdict.outcome != "inconsistent" or known.wrong_steps is None:
        return verdict
    last = reference.trace.clients[0].steps[-1].index
    return replace(verdict, alone=StepsAlone(known.wrong_steps, known.right_steps, last))


def _check_whole(trace: RunTrace) -> None:
    """Raise ValueError if something is missing in what processes have recorded that came to their end."""
    for client in trace.clients:
        if not client.whole:
            raise ValueError(f"the trace of {client.header.task} has lost its end")
        for array in arrays_in(client):
            array.check()
