"""A run that was killed after a step and started again: what was recorded until then, and where it has resumed.

A resumed program counts its calls of `record.step` from 1 again and does not say where it has resumed. It is aligned
with the reference by its end: the last step that it records is the reference's last, so that a program which records
n of N steps has resumed after step N - n. A program that misjudges where it is then shows other values than the
reference at these steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.evidence.observed import epoch_ends, per_epoch
from harness.evidence.trace import RunTrace


@dataclass(frozen=True)
class Interruption:
    """What is known of an interrupted run besides the steps of its resumed part.

    Attributes:
        at: the step after which every task was killed, as the interrupted program counted its calls of `record.step`.
        before: what was recorded until then.
        recorded: how many steps the resumed run recorded: the most that any of its clients did.
        in_epochs: whether these are epochs, while the reference recorded every step.
        reference: the whole reference, of which a case of one part holds only that part.
        resume_strategy: the strategy of the resumed part.
        saved: the files in `record.directory` when the tasks were killed, relative to it.
        of_script: whether a script was interrupted, which has no such directory: `saved` is what it had saved.
    """

    at: int
    before: RunTrace
    recorded: int
    in_epochs: bool
    reference: RunTrace
    resume_strategy: str
    saved: tuple[str, ...] = ()
    of_script: bool = False

    @property
    def total(self) -> int:
        """The reference's steps."""
        return len(self.reference.clients[0].steps)

    @property
    def at_step(self) -> int:
        """The reference's step after which the run was killed; under parameter servers Keras records only epochs."""
        ends = epoch_ends(self.reference)
        if per_epoch(self.before, self.reference):
            return ends[min(self.at, len(ends)) - 1] if ends else self.at
        return self.at

    @property
    def begins_after(self) -> int:
        """The step of the reference that lies just before the resumed steps, by their number; negative if too many."""
        if self.in_epochs:
            ends = [0, *epoch_ends(self.reference)]
            left = len(ends) - 1 - self.recorded
            return ends[left] if left >= 0 else left
        return self.total - self.recorded

    @property
    def resumed_at(self) -> int:
        """The last step that the resumed run did not have to do again, from 0; never later than the interruption."""
        return min(max(0, self.begins_after), self.at_step)

    @property
    def kept(self) -> str:
        """What `record.directory` held, in words."""
        if not self.saved:
            held = "record.directory held nothing from before its last step"
            return "nothing had been saved" if self.of_script else held
        shown = ", ".join(self.saved[:3]) + (", ..." if len(self.saved) > 3 else "")
        if self.of_script:
            return f"it had saved {shown}"
        return f"record.directory held {len(self.saved)} file{'s' if len(self.saved) > 1 else ''} ({shown})"

    def to_json(self) -> dict[str, Any]:
        """What verdicts say of it, in steps of the reference."""
        return {"at": self.at_step, "resumed_at": self.resumed_at, "resume_strategy": self.resume_strategy}
