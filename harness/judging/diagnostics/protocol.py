"""What a diagnostic is: a code and a sentence, the lines that take part, the numbers, and the cure."""

from __future__ import annotations

from typing import Literal

import msgspec

from simulator.agent.places import place

Severity = Literal["error", "warning"]


class Label(msgspec.Struct, frozen=True):
    """A place in a source, and what is said of it.

    Attributes:
        file: as Python knows it, relative to the current directory where it lies in there.
        line: from 1.
        source: the text of the line, as it is in the file, or was without what surrounds it.
        begin: the first column of `source` that is meant, from 0.
        end: the column behind the last one.
        text: what is said.
        exact: whether `source` is the line of the file as it is now, so that its columns are the file's.
        on_disk: of a cell of a notebook, its file and the line that it has in there.
    """

    file: str
    line: int
    source: str
    begin: int
    end: int
    text: str
    exact: bool = True
    on_disk: tuple[str, int] | None = None

    @property
    def path(self) -> tuple[str, int]:
        """The file and the line for tools, which know nothing of cells."""
        return self.on_disk or (self.file, self.line)

    @property
    def where(self) -> str:
        """`train.py:19`."""
        return place(self.file, self.line)


class Diagnostic(msgspec.Struct, frozen=True, omit_defaults=True):
    """One mistake, or why nothing can be said.

    Attributes:
        severity: an `error` is inconsistent, a `warning` is not judged.
        code: that of the rule that explains it, or else of the law that is broken; `not_judged`.
        title: what is wrong, in one sentence without a full stop.
        program: what was verified.
        strategy: under which strategy.
        label: the line that is wrong.
        others: lines that take part.
        facts: the first numbers that differ, and at which steps others do.
        help: the cure.
        notes: what is taken as given.
    """

    severity: Severity
    code: str
    title: str
    program: str
    strategy: str
    label: Label | None = None
    others: tuple[Label, ...] = ()
    facts: tuple[str, ...] = ()
    help: str = ""
    notes: tuple[str, ...] = ()

    @property
    def head(self) -> str:
        """`error[loss_times_replicas]: the loss is too large by the number of replicas`."""
        return f"{self.severity}[{self.code}]: {self.title}"

    @property
    def where(self) -> str:
        """`train.py:19 (train.py:train under mirrored-2)`."""
        under = f"{self.program} under {self.strategy}"
        return under if self.label is None else f"{self.label.where} ({under})"
