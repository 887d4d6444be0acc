"""A coordinator's script whose workers began their data anew: after they came back, or with the job.

What TensorFlow's coordinator makes for a worker, its data set and iterator, it makes anew when the worker is back. From
then on the run sees other examples than an undisturbed one, although nothing is wrong. So who follows it is told where
that was, and its workers do the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.evidence.parts import Parts, read_parts
from harness.evidence.rebuilt import Rebuilt, read_rebuilt
from harness.judging.conditions import ORDER
from harness.judging.verdict import Verdict
from harness.subject.program import Program
from harness.subject.script import Anew

__all__ = ["DataAnew", "data_anew", "histories"]

_EXAMPLES = "examples_match_reference"


@dataclass(frozen=True)
class DataAnew:
    """A script that is told where its data begins anew.

    Attributes:
        program: until the end.
        undone: in the part before the last one.
        note: what a verdict says of that.
    """

    program: Program
    undone: Program
    note: str


def data_anew(verdict: Verdict, program: Program, directory: Path) -> DataAnew | None:
    """What is to follow the run instead, where its examples are not those of an undisturbed one; None if it need not.

    Args:
        verdict: by the undisturbed script.
        program: the script.
        directory: of the run.
    """
    held = any(law.law == _EXAMPLES and law.status == "held" for law in verdict.judgements)
    if held and all(condition.code != ORDER for condition in verdict.conditions):
        return None
    resumed_at = 0 if verdict.interrupted is None else int(verdict.interrupted["resumed_at"])
    found = histories(read_parts(directory), read_rebuilt(directory), resumed_at)
    if found is None or not any(found):
        return None
    before, last = found
    note = f"workers began their data anew {_worded(last)}, as TensorFlow has it, and so did those of the reference"
    return DataAnew(program.anew(last), program.anew(before), note)


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
