"""Tries cures: the program with each of them is verified, and what is consistent then is the cure."""

from __future__ import annotations

import ast
import difflib
import itertools
import os
import shutil
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cures.kinds import all_cures
from harness.cures.protocol import CureSource, lines_of
from harness.evidence.reproducibility import ROUNDING_SHARE_MAX, first_difference
from harness.judging.culprit.kinds import REPORT
from harness.judging.diagnostics import diagnostic_of
from harness.judging.verdict import Verdict
from harness.phases import phase
from harness.running.reference import Venue, undisturbed
from harness.running.reference_request import ReferenceRequest
from harness.running.script_checks import ready
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from harness.verify import verify
from simulator import LockstepError
from simulator.machines.local.scratch import scratch

_TRIES_MAX = 12


@dataclass(frozen=True)
class TriedCure:
    """A change of a file with which a program is consistent.

    Attributes:
        file: that is changed.
        before: its text, with its own ends of lines.
        after: its text with the change.
        encoding: of the file.
        verdict: on the program with it.
    """

    file: Path
    before: str
    after: str
    encoding: str
    verdict: Verdict

    @property
    def diff(self) -> str:
        """The change as `diff -u` shows it, with one line around it."""
        name, before, after = os.path.relpath(self.file), lines_of(self.before), lines_of(self.after)
        shown = difflib.unified_diff(before, after, name, name, n=1)
        return "\n".join(line.rstrip("\r\n") for line in shown)


@dataclass(frozen=True)
class NoCure:
    """Why there is none."""

    why: str


def try_cures(
    verdict: Verdict, file: Path, program: Callable[[Path], Program], case: StrategyCase, **asked: Any
) -> TriedCure | NoCure:
    """A change of the program's own lines with which it is consistent, or why there is none.

    The file itself stays as it is: a copy is verified, in a directory that has all else which its own has. A change
    that makes another training of it on one device is no cure.

    Args:
        verdict: that is inconsistent.
        file: of the program, or of the script.
        program: what is verified where the file is another one.
        case: the strategy.
        asked: the rest, as of `verify`.
    """
    found = diagnostic_of(verdict)
    if found is None or (found.label is None and found.code != REPORT.code):
        return NoCure("no line is named that could be changed")
    file = guilty = file.resolve()
    if found.label is not None and (guilty := Path(found.label.file).resolve()).parent != file.parent:
        return NoCure(f"{found.label.file} does not lie beside the program, and only there lines are changed")
    before, encoding = _read(guilty)
    others = tuple(each for each in found.others if found.label is not None and each.file == found.label.file)
    tries = list(itertools.islice(_changes(found.code, CureSource(before, found.label, others)), _TRIES_MAX))
    for after in tries:
        phase("trying a cure")
        with scratch("cure") as place:
            for each in file.parent.iterdir():
                if each not in (file, guilty):
                    (place / each.name).symlink_to(each)
            # A copy, since Python looks for what it imports beside what a link leads to.
            shutil.copy2(file, place)
            (place / guilty.name).write_bytes(after.encode(encoding))
            try:
                again = verify(program(place / file.name), case, **asked)
                if again and _is_same_alone(program(file), program(place / file.name), case, **asked):
                    return TriedCure(guilty, before, after, encoding, again)
            except LockstepError:  # it does not run so
                continue
    known = f"none of {len(tries)} known changes" if tries else "no known change"
    return NoCure(f"{known} of these lines makes it consistent")


def _changes(code: str, source: CureSource) -> Iterator[str]:
    """Each change that may mend what has a code, once."""
    kinds = [cure.changed(source) for cure in all_cures() if code in cure.codes]
    known = {source.text}
    # The likeliest of each kind first: nobody knows which kind it is.
    for changed in itertools.chain.from_iterable(itertools.zip_longest(*kinds)):
        if changed is not None and changed not in known and _is_python(changed):
            known.add(changed)
            yield changed


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _read(file: Path) -> tuple[str, str]:
    """The text of a source as it is, and its encoding."""
    with file.open("rb") as lines:
        encoding, _ = tokenize.detect_encoding(lines.readline)
    return file.read_bytes().decode(encoding), encoding


def _is_same_alone(one: Program, other: Program, case: StrategyCase, *, timeout: float, **_: Any) -> bool:
    """Whether two programs leave the same on one device, but for roundings."""
    venue = Venue(0, timeout)  # any seed does that both have
    both = [ready(each, case, None, prove=False) for each in (one, other)]
    ours, theirs = (undisturbed(each, venue, ReferenceRequest()).trace.clients[0] for each in both)
    difference = first_difference(ours, theirs)
    return difference is None or difference.share <= ROUNDING_SHARE_MAX
