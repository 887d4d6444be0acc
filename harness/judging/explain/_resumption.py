"""What the rules about interrupted runs share: the first resumed step, and the reference before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from harness.evidence.observed import Observed, epoch_ends, history, is_integer
from harness.judging.explain._view import CaseView, Floats
from harness.judging.interruption import Interruption
from harness.judging.laws.updates_counted import COUNTERS

SLOT = re.compile(r"(?:^|[/_])(momentum|velocity|m|v)(?:/|#|:|$)")
"""Names of slots that decay by a constant: Keras 3 `adam/dense_kernel_momentum`, tf_keras `Adam/m/dense/kernel`."""

_History = Mapping["int | None", Mapping[str, Observed]]


@dataclass(frozen=True)
class Resumption:
    """An interrupted run's resumed part; all steps are the reference's."""

    view: CaseView
    found: Interruption
    first: int

    @property
    def begin(self) -> int:
        """The first step that a run from scratch records."""
        return (epoch_ends(self.found.reference) or [1])[0] if self.found.in_epochs else 1

    @cached_property
    def variables(self) -> _History:
        """The reference's variables at all steps, those before the interruption included."""
        return history(self.found.reference, "variables")

    @cached_property
    def before(self) -> _History:
        """The run's variables at the steps until it was killed."""
        return history(self.found.before, "variables")

    @cached_property
    def losses(self) -> _History:
        """The reference's losses at all steps."""
        return history(self.found.reference, "loss")

    def known(self, step: int, name: str) -> Floats:
        """The reference's value of a variable after any step."""
        import numpy as np

        return np.real(self.variables[step][name].array).astype(np.float64)

    def wrong(self, name: str) -> bool:
        """Whether a variable is wrong after the first resumed step."""
        return name in self.view.wrong("variables", self.first)

    @cached_property
    def names(self) -> list[str]:
        """The variables recorded after the first resumed step."""
        return self.view.names("variables", self.first)

    @cached_property
    def floats(self) -> list[str]:
        """Those of floating dtype that the reference recorded after its first step, too."""
        there = self.variables.get(self.begin, {})
        truth = self.view.reference["variables"].get(self.first, {})
        return [name for name in self.names if name in there and not is_integer(truth[name].dtype)]

    @property
    def weights(self) -> list[str]:
        """Those that are no slots."""
        return [name for name in self.floats if not SLOT.search(name)]

    @cached_property
    def counter(self) -> tuple[str, int, int, int] | None:
        """A variable that counts updates: (name, observed and expected after the first resumed step, if begun anew)."""
        truth = self.view.reference["variables"].get(self.first, {})
        for name in self.names:
            scalar = is_integer(truth[name].dtype) and truth[name].array.shape == ()
            if last_of(name) in COUNTERS and scalar and name in self.variables.get(self.begin, {}):
                observed = self.view.value("variables", self.first, name)
                expected = self.view.truth("variables", self.first, name)
                return name, int(observed), int(expected), int(self.known(self.begin, name))
        return None

    @property
    def where(self) -> str:
        """`Killed after step 5, the run resumed at step 4`."""
        return f"Killed after step {self.found.at_step}, the run resumed at step {self.found.resumed_at}"


def last_of(name: str) -> str:
    """The last part of a variable's name, without what numbers it."""
    return name.rpartition("/")[2].partition(":")[0].partition("#")[0]


def resumption_of(view: CaseView) -> Resumption | None:
    """The resumption in a case; None if it was not interrupted, or nothing comparable was recorded after it."""
    found = view.case.interruption
    reached = [*view.steps("variables"), *view.steps("loss")]
    if found is None or not reached:
        return None
    return Resumption(view, found, min(reached))
