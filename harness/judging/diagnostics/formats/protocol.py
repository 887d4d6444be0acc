"""What a form is: it writes what came of some verifications."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

import msgspec

from harness.judging.diagnostics.protocol import Diagnostic


class ReportedVerdict(msgspec.Struct, frozen=True):
    """What came of one verification.

    Attributes:
        file: of the program, as it was named.
        program: what was verified.
        strategy: under which strategy.
        seconds: that it took, 0 where nobody knows.
        diagnostic: the mistake, or why nothing was judged; None of what is consistent.
    """

    file: str
    program: str
    strategy: str
    seconds: float
    diagnostic: Diagnostic | None


class Format(Protocol):
    """One of them; each lives in its own file, as `FORMAT`."""

    def written(self, reported: Sequence[ReportedVerdict]) -> str:
        """All of it, without a newline at the end; nothing may follow from the time or the machine."""


def message(found: Diagnostic) -> str:
    """The sentence, where it is, the numbers and the cure, line by line."""
    parts = (found.title, found.where, *found.facts, *found.notes, f"help: {found.help}" if found.help else "")
    return "\n".join(filter(None, parts))


def fingerprint(found: Diagnostic) -> str:
    """What stays as it is while the mistake stays, though lines before it come and go and numbers change."""
    place = () if found.label is None else (found.label.path[0], found.label.source.strip())
    return hashlib.sha256("\0".join((found.code, found.program, found.strategy, *place)).encode()).hexdigest()
