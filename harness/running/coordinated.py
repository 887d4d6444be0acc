"""The reference of a coordinator's script whose workers began their data anew: after they came back, or with the job.

What TensorFlow's coordinator makes for a worker, its data set and iterator, it makes anew when the worker is back. From
then on the run sees other examples than an undisturbed one, although nothing is wrong. So the reference is told where
that was, and its workers do the same; whether the updates are right is judged then as ever.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.evidence.parts import Parts, read_parts
from harness.evidence.rebuilt import Rebuilt, read_rebuilt
from harness.evidence.reference import Reference
from harness.judging.verdict import Verdict
from harness.running.reference import ReferenceRuns, Venue, reference_runs
from harness.subject.program import Program
from harness.subject.script import Anew

__all__ = ["AnewRuns", "anew_runs", "histories"]

_EXAMPLES = "examples_match_reference"


@dataclass(frozen=True)
class AnewRuns:
    """The runs that such a run is held against: those of the whole, and those of the part before the last one.

    Attributes:
        runs: of the script that is told where its data begins anew until the end.
        before: of the one that is told where it did so in the part before.
        note: what a verdict says of that.
    """

    runs: ReferenceRuns
    before: ReferenceRuns
    note: str

    follow = False

    def plain(self) -> Reference:
        """As of `ReferenceRuns`."""
        return self._both(self.runs.plain(), self.before.plain())

    def with_noise(self, runs: int, *, sure: bool = False) -> Reference:
        """As of `ReferenceRuns`."""
        return self._both(self.runs.with_noise(runs, sure=sure), self.before.with_noise(runs, sure=sure))

    def _both(self, reference: Reference, before: Reference) -> Reference:
        return replace(reference, earlier={0: before}, notes=(*reference.notes, self.note))


@contextlib.contextmanager
def anew_runs(verdict: Verdict, program: Program, directory: Path, venue: Venue) -> Iterator[AnewRuns | None]:
    """What the run is to be judged by instead, where its examples are not those of an undisturbed one.

    Args:
        verdict: by the undisturbed reference.
        program: the script.
        directory: of the run.
        venue: where these runs are made.

    Yields:
        None where the first reference is as good.
    """
    found = None
    if all(law.law != _EXAMPLES or law.status != "held" for law in verdict.judgements):
        resumed_at = 0 if verdict.interrupted is None else int(verdict.interrupted["resumed_at"])
        found = histories(read_parts(directory), read_rebuilt(directory), resumed_at)
    if found is None or not any(found):
        yield None
        return
    with contextlib.ExitStack() as stack:
        before, last = (
            stack.enter_context(reference_runs(program.anew(each), directory, verdict.strategy, venue, follows=False))
            for each in found
        )
        where = _worded(found[1])
        text = f"workers began their data anew {where}, as TensorFlow has it, and so did those of the reference"
        yield AnewRuns(last, before, text)


def histories(
    parts: Parts, noted: Sequence[Sequence[Rebuilt]], resumed_at: int
) -> tuple[tuple[Anew, ...], tuple[Anew, ...]] | None:
    """Where data began anew in the part before the last one, and until the end; None where that is not known.

    Args:
        parts: of the run, which was started again once at most.
        noted: by each process of the coordinator, in its own steps.
        resumed_at: how many steps lie behind the last part.
    """
    if len(noted) != 1 + len(parts.earlier) or len(noted) > 2:
        return None
    own = tuple(Anew(*each) for each in noted[-1])
    if not parts.earlier:
        return (), own
    before = tuple(Anew(*each) for each in noted[0])
    if not resumed_at:
        return before, own
    kept = (each for each in before if each.after < resumed_at)
    later = (Anew(resumed_at + each.after, each.worker) for each in own)
    return before, (*kept, Anew(resumed_at), *later)


def _worded(where: Sequence[Anew]) -> str:
    return ", ".join(
        f"after step {each.after}" + (" (all)" if each.worker is None else f" (worker {each.worker})") for each in where
    )
