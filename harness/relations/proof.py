"""What a proof says: that a step is right for every batch, or under what conditions, or where it is not."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from harness.relations.facts import EVEN, NONEMPTY
from simulator.agent.places import place

Status = Literal["proved", "conditional", "refuted", "open"]

_SAYS = {
    "proved": "right for every batch and every number of examples",
    "conditional": "right for every batch that meets a condition",
    "refuted": "wrong",
    "open": "not decided by its graph; numbers have to decide",
}
_SHOWN = 8


@dataclass(frozen=True)
class SourcePlace:
    """A line of the program, and the type of the operation that it made."""

    file: str
    line: int
    source: str
    op: str

    @property
    def text(self) -> str:
        """`train.py:19  loss = ...`."""
        return f"{place(self.file, self.line)}  {self.source}".rstrip()

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        return {"file": self.file, "line": self.line, "source": self.source, "op": self.op}


@dataclass(frozen=True)
class Met:
    """How the examples that a run consumed stand to a condition: of so many `steps` some are `broken`.

    `step` is the first of these, and `shares` is how many examples each replica had then.
    """

    steps: int
    broken: int
    step: int | None = None
    shares: tuple[int, ...] | None = None

    @property
    def text(self) -> str:
        """What follows the condition in a sentence."""
        if self.shares is None:
            return f"as in all {self.steps} steps of this run"
        first = f"first at step {self.step} ({'+'.join(map(str, self.shares))})"
        return f"which is not so at {self.broken} of {self.steps} steps of this run, {first}"

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        shares = None if self.shares is None else list(self.shares)
        return {"steps": self.steps, "broken": self.broken, "step": self.step, "shares": shares}


@dataclass(frozen=True)
class Under:
    """A condition, the lines that need it, and whether a run met it, if there was a run and it shows that."""

    what: str
    places: tuple[SourcePlace, ...]
    met: Met | None = None

    @property
    def meaning(self) -> str:
        """In words."""
        words = {EVEN: "all replicas have equally many examples", NONEMPTY: "no replica is without examples"}
        return words.get(self.what, self.what)

    @property
    def text(self) -> str:
        """In words, with the lines."""
        lines = ", ".join(dict.fromkeys(place(each.file, each.line) for each in self.places))
        return self.meaning + (f" ({lines})" if lines else "") + (f", {self.met.text}" if self.met else "")

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        met = None if self.met is None else self.met.to_json()
        return {
            "condition": self.what,
            "text": self.text,
            "places": [place.to_json() for place in self.places],
            "met": met,
        }


@dataclass(frozen=True)
class Counterexample:
    """A batch for which the numbers differ, and the value that differs most.

    Attributes:
        shards: how many examples each replica had.
        value: that differs, in words.
        expected: what one device makes of it.
        found: what replicas make of it.
        variable: of which the value is.
        zeros: whether all floating numbers of the examples are zero.
    """

    shards: tuple[int, ...]
    value: str
    expected: float
    found: float
    variable: str = ""
    zeros: bool = False

    @property
    def text(self) -> str:
        """In a sentence."""
        parts = "+".join(map(str, self.shards))
        of_zeros = ", with zeros for their floating numbers," if self.zeros else ""
        return f"with {parts} examples{of_zeros} {self.value} is {self.found:.6g}, on one device {self.expected:.6g}"

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        return {
            "shards": list(self.shards),
            "value": self.value,
            "expected": self.expected,
            "found": self.found,
            "variable": self.variable,
            "zeros": self.zeros,
        }


@dataclass(frozen=True)
class Suspect:
    """The line from which on the replicas' values no longer mean what the one device's does, and what happens there."""

    place: SourcePlace | None
    why: str
    value: str
    definite: bool = False
    counterexample: Counterexample | None = None

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        place = {"file": None, "line": None, "source": "", "op": ""} if self.place is None else self.place.to_json()
        shown = None if self.counterexample is None else self.counterexample.to_json()
        return {**place, "relation": self.why, "value": self.value, "counterexample": shown}


@dataclass(frozen=True)
class Proof:
    """What is known of a training step for every batch.

    Attributes:
        status: `proved`, `conditional` (right under `conditions`), `refuted` (a batch was run for which it is wrong) or
            `open` (nothing is known for every batch).
        program: its name.
        strategy: under which it was traced.
        conditions: under which it is right.
        suspects: where it may be wrong; of a refuted step the first is what was run.
        reasons: why it is open, in sentences.
        open_operations: types of operations without a rule that stood in the way.
        values: how many variables and reported values were followed.
        operations: how many operations of each type were looked at.
        sources: how many data sets the examples come from: of several it is not known whose a condition is about.
        tried: the shares of batches on which a right step was run as well, and was right.
        seconds: that tracing, inferring and trying batches took.
    """

    status: Status
    program: str
    strategy: str
    conditions: tuple[Under, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    reasons: tuple[str, ...] = ()
    open_operations: tuple[str, ...] = ()
    values: int = 0
    operations: tuple[tuple[str, int], ...] = ()
    tracing_seconds: float = 0.0
    inferring_seconds: float = 0.0
    trying_seconds: float = 0.0
    tried: tuple[tuple[int, ...], ...] = ()
    sources: int = 1

    @property
    def culprit(self) -> Suspect | None:
        """What was refuted, by a batch that was run."""
        return self.suspects[0] if self.status == "refuted" and self.suspects else None

    def __bool__(self) -> bool:
        return self.status in ("proved", "conditional")

    def __str__(self) -> str:
        return self.text()

    @property
    def short(self) -> str:
        """For the first line of a verdict that is consistent in numbers."""
        if self.status == "conditional":
            return self._only_while
        return "and right for every batch" if self.status == "proved" else "tested only"

    @property
    def _beside(self) -> str:
        tried = ", ".join("+".join(map(str, shares)) for shares in self.tried)
        return f"; run on {tried} examples, which agree" if tried else ""

    @property
    def is_met(self) -> bool:
        """Whether it is proved, or every condition was met by all that was consumed."""
        met = all(each.met is not None and not each.met.broken for each in self.conditions)
        return self.status == "proved" or (self.status == "conditional" and met)

    @property
    def _only_while(self) -> str:
        broken = [each for each in self.conditions if each.met is not None and each.met.broken]
        if broken:
            first = broken[0]
            assert first.met is not None
            return f"but proved only while {first.meaning}, {first.met.text}"
        while_ = f"and right for every batch only while {' and '.join(each.meaning for each in self.conditions)}"
        return f"{while_}, {self.conditions[0].met.text}" if self.is_met and self.conditions[0].met else while_

    def text(self, width: int = 110) -> str:
        """For people."""
        head = f"{self.program} under {self.strategy}: {self.status.upper()}, {_SAYS[self.status]}"
        took = f"({self.tracing_seconds + self.inferring_seconds + self.trying_seconds:.1f} s)"
        return "\n".join([f"{head} {took}" if self.status != "refuted" else head, *self.lines(width)])

    def lines(self, width: int = 110) -> Iterator[str]:
        """What follows the first line, or a verdict's."""
        for condition in self.conditions:
            yield from _wrapped("  while ", condition.text, width)
        for each in self.suspects[: 1 if self.status == "refuted" else _SHOWN]:
            where = "" if each.place is None else f"{each.place.text}: "
            yield from _wrapped("  wrong: " if self.status == "refuted" else "  open: ", f"{where}{each.why}", width)
            yield from _wrapped("    ", each.value, width)
            if each.counterexample is not None:
                yield from _wrapped("    ", each.counterexample.text, width)
        if self.status == "open":
            for reason in self.reasons[:_SHOWN]:
                yield from _wrapped("  open: ", reason, width)
            if self.open_operations:
                yield from _wrapped("  without a rule: ", ", ".join(self.open_operations), width)
        if self.status in ("proved", "conditional"):
            yield f"  {self.values} variables and reported values were followed{self._beside}"

    def to_json(self) -> dict[str, Any]:
        """As the command line's `--json` has it under `proof`."""
        return {
            "status": self.status,
            "conditions": [each.to_json() for each in self.conditions],
            "culprit": None if self.culprit is None else self.culprit.to_json(),
            "suspects": [each.to_json() for each in self.suspects],
            "open_operations": list(self.open_operations),
            "reasons": list(self.reasons),
            "values": self.values,
            "tried": [list(shares) for shares in self.tried],
            "seconds": {
                "tracing": self.tracing_seconds,
                "inferring": self.inferring_seconds,
                "trying": self.trying_seconds,
            },
        }


def proof_again(found: Mapping[str, Any], program: str, strategy: str) -> Proof:
    """A proof from what `Proof.to_json` gave.

    Raises:
        KeyError, TypeError, ValueError: it is something else.
    """

    def place(each: Mapping[str, Any]) -> SourcePlace | None:
        return None if each["file"] is None else SourcePlace(each["file"], each["line"], each["source"], each["op"])

    def condition(each: Mapping[str, Any]) -> Under:
        met = each.get("met")
        if met is not None:
            met = Met(**{**met, "shares": None if met["shares"] is None else tuple(met["shares"])})
        return Under(each["condition"], tuple(filter(None, map(place, each["places"]))), met)

    def suspect(each: Mapping[str, Any]) -> Suspect:
        shown = each["counterexample"]
        if shown is not None:
            shown = Counterexample(**{**shown, "shards": tuple(shown["shards"])})
        return Suspect(place(each), each["relation"], each["value"], counterexample=shown)

    return Proof(
        found["status"],
        program,
        strategy,
        conditions=tuple(map(condition, found["conditions"])),
        suspects=tuple(map(suspect, found["suspects"])),
        reasons=tuple(found["reasons"]),
        open_operations=tuple(found["open_operations"]),
        values=found["values"],
        tracing_seconds=found["seconds"]["tracing"],
        inferring_seconds=found["seconds"]["inferring"],
        trying_seconds=found["seconds"].get("trying", 0.0),
        tried=tuple(map(tuple, found.get("tried", ()))),
    )


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(label + text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
