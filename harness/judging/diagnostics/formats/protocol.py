"""What a form is: it writes what came of some verifications."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Protocol

import msgspec

from harness.judging.diagnostics.protocol import Diagnostic

_ROOTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""Where GitHub's and GitLab's runners say that they have checked the repository out."""


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


def in_repository(file: str) -> str:
    """A file as from the root of its repository, where a runner says which that is; else as it is."""
    roots = [os.path.realpath(os.environ[name]) for name in _ROOTS if os.environ.get(name)]
    path = PurePath(os.path.normpath(Path.cwd().resolve() / file))  # of any text, as a diagnostic may have it
    return next((path.relative_to(root).as_posix() for root in roots if path.is_relative_to(root)), file)


def message(found: Diagnostic) -> str:
    """The sentence, where it is, the numbers and the cure, line by line."""
    parts = (found.title, found.where, *found.facts, *found.notes, f"help: {found.help}" if found.help else "")
    return "\n".join(filter(None, parts))


def fingerprint(found: Diagnostic) -> str:
    """What stays as it is while the mistake stays, though lines before it come and go and numbers change."""
    place = () if found.label is None else (found.label.path[0], found.label.source.strip())
    return hashlib.sha256("\0".join((found.code, found.program, found.strategy, *place)).encode()).hexdigest()
