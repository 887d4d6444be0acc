"""What a culprit is: the operation whose operands are right and whose result is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.judging.culprit.kinds import KINDS, MistakeKind
from simulator.agent.places import place


@dataclass(frozen=True)
class Culprit:
    """The line that broke it.

    Attributes:
        file: as Python knows it, relative to the current directory where it lies in there.
        line: from 1.
        source: the text of the line.
        op: the type of the operation, as TensorFlow calls it.
        layer: the name of its layer or its place in the graph; None where it has none.
        relation: what was found, in words.
        expected: what should be, in words.
        inputs: what each operand is, in words.
        step: at which it was watched.
        assigned: the variable that it changes, if it is one that does.
        adds: file, line and source of what adds up what the replicas have of it, where that is a part of the mistake.
        kind: the code of the kind of mistake that its values prove; None where they prove none.
        among: which one the operation is, from 0, of how many of its type that the line has made; None if not known.
    """

    file: str
    line: int
    source: str
    op: str
    layer: str | None
    relation: str
    expected: str
    inputs: tuple[str, ...]
    step: int
    assigned: str | None = None
    adds: tuple[str, int, str] | None = None
    kind: str | None = None
    among: tuple[int, int] | None = None

    @property
    def where(self) -> str:
        """`train.py:19`."""
        return place(self.file, self.line)

    @property
    def lines(self) -> tuple[str, ...]:
        """In words: the line, what happened there, what came in and out."""
        head = f"{self.where}  {self.source}".rstrip()
        inputs = "; ".join(self.inputs)
        return (head, self.relation, f"{f'inputs: {inputs}; ' if inputs else ''}output: {self.expected}")

    def to_json(self) -> dict[str, Any]:
        """As the command line's `--json` has it."""
        return {
            "file": self.file,
            "line": self.line,
            "source": self.source,
            "op": self.op,
            "layer": self.layer,
            "relation": self.relation,
            "expected": self.expected,
            "inputs": list(self.inputs),
            "step": self.step,
            "adds": self.adds,
            "among": self.among,
            "kind": self.kind,
        }


@dataclass(frozen=True)
class NoCulprit:
    """Why none is named; `earlier` where an earlier step has to be watched for it, `kind` as of `Culprit`."""

    why: str
    earlier: bool = False
    kind: str | None = None


@dataclass(frozen=True)
class Looked:
    """The culprit, or why there is none; and how many seconds it took to watch steps, 0 where none had to be.

    `proved` is the code of a kind of mistake that is known although no line is.
    """

    culprit: Culprit | None
    why_not: str | None
    seconds: float
    proved: str | None = None

    @property
    def kind(self) -> MistakeKind | None:
        """The kind of mistake that values prove; None where they prove none."""
        code = self.proved if self.culprit is None else self.culprit.kind
        return None if code is None else KINDS[code]

    def to_json(self) -> dict[str, Any]:
        """As in the command line's `--json`."""
        return {
            "culprit": None if self.culprit is None else self.culprit.to_json(),
            "looked": {"why_not": self.why_not, "seconds": self.seconds, "proved": self.proved},
        }
