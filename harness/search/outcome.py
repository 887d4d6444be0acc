"""What came of one plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from harness.search.situations import RunSituations

Symptom = Literal["numbers", "liveness", "slowness"]


@dataclass(frozen=True)
class PlanOutcome:
    """Whether a program survived a plan: true if it did.

    Attributes:
        symptom: `numbers` if a law is broken, `liveness` if the run did not end well although its plan healed and
            restarts were allowed, `slowness` if it ended well and stood still for longer than its faults explain; None
            if it survived.
        code: what was wrong, by name: the rule or the laws, or the error and the line where it was raised; empty where
            the symptom says all.
        text: what was wrong, or what the run was like, as lines for a person.
        unfired: what the injector says of faults whose trigger never came, or that had nothing to strike.
        struck: of each fault of the plan, whether it has struck; empty where that is not known.
        void: why the run says nothing about the program, if that is so; such an outcome is neither true nor a failure.
        shown: which situations it has shown.
        restarts: how often the most restarted task was started again.
        gap: the longest time in which no task did anything, in seconds.
        seconds: how long it took.
    """

    symptom: Symptom | None = None
    code: str = ""
    text: str = ""
    unfired: tuple[str, ...] = ()
    struck: tuple[bool, ...] = ()
    void: str | None = None
    shown: RunSituations = field(default_factory=RunSituations)
    restarts: int = 0
    gap: float = 0.0
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return self.symptom is None and self.void is None

    @property
    def failed(self) -> bool:
        """Whether the program is to blame."""
        return self.symptom is not None

    def is_like(self, other: PlanOutcome) -> bool:
        """Whether the program failed in the same way."""
        return (self.symptom, self.code) == (other.symptom, other.code)

    @property
    def summary(self) -> str:
        """One line: `survived (2 restarts, 3.1 s)`."""
        said = f"failed: {self.symptom}" if self.failed else f"void: {self.void}" if self.void else "survived"
        notes = [f"{self.restarts} restart{'' if self.restarts == 1 else 's'}"] if self.restarts else []
        if self.unfired:
            notes.append(f"{len(self.unfired)} not fired")
        return f"{said} ({', '.join([*notes, f'{self.seconds:.1f} s'])})"

    def __str__(self) -> str:
        return "\n".join([self.summary, *filter(None, [self.text]), *self.unfired])
