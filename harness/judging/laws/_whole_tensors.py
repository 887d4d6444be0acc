"""What steps add to variables, and gradients, held as wholes against the reference's; and which of them were judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness.evidence.arrays import wide
from harness.evidence.comparing import place
from harness.evidence.observed import Observed, begun_with, history
from harness.judging.laws.protocol import Case, Finding
from harness.judging.resolution import FINER, JUDGED_PART
from harness.judging.tolerance import DerivedTolerance
from harness.judging.tolerance.whole_tensor import length

if TYPE_CHECKING:
    import numpy as np

    from harness.judging.tolerance import Tolerance, WholeTensor

    Floats = np.ndarray[Any, np.dtype[np.float64]]
else:
    Floats = Any


_ROUNDING = 0.5
"""Where noise moves a change by such a part of it, it is rounding and nothing else."""
_UNSEEN_MAX = 0.5
_LET_OFF_PART = 0.25
"""What is beyond some bounds, and is let off for what more reruns do, is judged if such a part of what the step adds
would have been found: a suspicion has to be answered more finely than silence.
"""
_SHOWN = 4


@dataclass
class WholeTensors:
    """Of one observable of a case.

    A gradient is a whole by itself. A variable is one as far as it is known what a step began with, which it is where
    the reference followed the run: that is what the run held when the step before had ended, if nothing else is known.

    Attributes:
        case: see above.
        observable: see above.
        moved: by name at how many steps it changes.
        judged: at which of them an error of a stated part would have been found, each with the least such part.
        doubted: of which one step at least is not judged because something is beyond some bounds there.
        rounding: by name at how many its change is rounding and nothing else.
        otherwise: at how many it is another one in each rerun for another reason.
    """

    case: Case
    observable: str
    moved: Counter[str] = field(default_factory=Counter)
    judged: dict[str, dict[int | None, float]] = field(default_factory=dict)
    doubted: set[str] = field(default_factory=set)
    rounding: Counter[str] = field(default_factory=Counter)
    otherwise: Counter[str] = field(default_factory=Counter)

    def of(self, step: int | None, name: str, run: Observed) -> WholeTensor | None:
        """What a value is as a whole at a step; None where that cannot be said."""
        import numpy as np

        if (found := self.held(step, name, run, self.case.tolerance)) is not None:
            self.moved[name] += 1
            bound = self.case.tolerance.bound(self.observable, name, step)
            of_elements = length(np.broadcast_to(bound, run.array.shape)) / found.size
            share = min(found.share, of_elements)
            if share <= JUDGED_PART:
                self.judged.setdefault(name, {})[step] = share
            if _LET_OFF_PART < share <= JUDGED_PART and self._is_widened(step, name, run, found):
                self.let_off(step, name, 1.0)
            if found.moved >= _ROUNDING and found.own <= JUDGED_PART and self.observable == "variables":
                rounds = self.case.tolerance.rounds(name, step)
                self.rounding[name] += rounds
                self.otherwise[name] += not rounds
        elif (moved := self._moves_alone(step, name, run)) is not None:
            self.moved[name] += 1
            self.rounding[name] += moved
        return found

    def _moves_alone(self, step: int | None, name: str, run: Observed) -> bool | None:
        """Whether noise moves what the run changes and the reference does not, as by too little for its dtype.

        None where that is not so: both or none of them change it.
        """
        import numpy as np

        tolerance, truth = self.case.tolerance, self._truth.get(step, {}).get(name)
        if truth is None or not isinstance(tolerance, DerivedTolerance) or np.array_equal(run.array, truth.array):
            return None  # as of what nobody changes
        before = None if run.problem or run.array.dtype.kind != "f" else self._before(step, name, run)
        if before is None:
            return None
        if not np.array_equal(wide(truth.array), before):
            return None
        return tolerance.is_moved(self.observable, name, step)

    def held(self, step: int | None, name: str, run: Observed, tolerance: Tolerance) -> WholeTensor | None:
        """The same, of any run that began the step with what the run did, within this tolerance."""
        if run.problem or run.array.dtype.kind != "f" or (before := self._before(step, name, run)) is None:
            return None
        return tolerance.whole(self.observable, name, step, run.array.astype("float64"), before)

    def let_off(self, step: int | None, name: str, times: float) -> None:
        """Take in that a whole is no finding as long as it is off by no more than so many times its bound."""
        judged = self.judged.get(name, {})
        if judged.get(step, 0.0) * times > _LET_OFF_PART:
            del judged[step]
            self.doubted.add(name)

    def _is_widened(self, step: int | None, name: str, run: Observed, found: WholeTensor) -> bool:
        """Whether a whole is within its bounds only by reruns that were made since the first ones accused."""
        tolerance = self.case.tolerance
        if found.ratio > 1 or not isinstance(tolerance, DerivedTolerance) or tolerance.of_pair is None:
            return False
        before = self.held(step, name, run, tolerance.of_pair)
        return before is not None and before.ratio > 1

    @property
    def unseen(self) -> tuple[str, ...]:
        """Variables that change, of which most changes could be wrong by a large part without being found.

        What is rounding and nothing else, such as a bias before a normalization, is nothing that could be wrong.
        """
        if self.observable != "variables":
            return ()
        return tuple(
            name
            for name, steps in self.moved.items()
            if steps - len(self.judged.get(name, ())) - self.rounding[name] > _UNSEEN_MAX * steps
        )

    @property
    def is_rounding(self) -> bool:
        """Whether variables change, and all of their changes are rounding: then nothing of a step was judged."""
        return bool(self.moved) and all(self.rounding[name] == steps for name, steps in self.moved.items())

    @property
    def drawn(self) -> tuple[str, ...]:
        """Those of them whose change is another thing each time that one device computes it."""
        return tuple(name for name in self.unseen if self.otherwise[name])

    @property
    def why(self) -> str:
        """Why these are not judged."""
        drawn = self.drawn
        shown = ", ".join(map(repr, (drawn or self.unseen)[:_SHOWN])) + (", ..." if len(self.unseen) > _SHOWN else "")
        if drawn:
            return (
                f"what steps add to {len(drawn)} of {len(self.moved)} variables is another thing each time that one "
                f"device computes the same step, and their gradients are not: {shown}. The program reads a clock, or "
                "draws, where nobody sees it. Have it draw by TensorFlow, or by NumPy with a seed"
            )
        part, off = (_LET_OFF_PART, "is off and ") if self.doubted & {*self.unseen} else (JUDGED_PART, "")
        return (
            f"what steps add to {len(self.unseen)} of {len(self.moved)} variables that change {off}is not judged, "
            f"since an error of {part:.0%} of it is within what rounding may do: {shown}. {FINER}"
        )

    def findings(
        self, law: str, step: int | None, name: str, found: WholeTensor, task: str | None
    ) -> list[tuple[Finding, float]]:
        """What is wrong with a whole, each with its ratio."""
        where = f"{place(step, self.observable, name)} as a whole"
        what = "what the step adds to it" if self.observable == "variables" else "it"

        def finding(text: str, observed: float, expected: float, bound: float, ratio: float) -> Finding:
            said = f"{where}: {text}, bound {bound:.3g}, ratio {ratio:.3g}"
            return Finding(law, said, task, step, self.observable, name, None, observed, expected, bound)

        made = []
        if (ratio := found.factor_ratio) > 1:
            text = f"{what} is {found.factor:.5g} times what it should be"
            made.append((finding(text, found.factor, 1.0, found.factor_bound, ratio), ratio))
        if (ratio := found.rest_ratio) > 1:
            text = f"{found.rest:.2g} of {what} is something else"
            made.append((finding(text, found.rest, 0.0, found.rest_bound, ratio), ratio))
        return made

    def _before(self, step: int | None, name: str, run: Observed) -> Floats | None:
        import numpy as np

        if self.observable == "gradients":
            return np.zeros(run.array.shape)
        if self.observable != "variables" or not self.case.follows or step is None:
            return None
        held = self._begun.get(step, {}).get(name)
        if step not in self._begun and (earlier := self._values.get(step - 1, {}).get(name)) is not None:
            held = earlier.array
        return None if held is None or held.shape != run.array.shape else held.astype(np.float64)

    @cached_property
    def _truth(self) -> Any:
        return history(self.case.reference, self.observable)

    @cached_property
    def _values(self) -> Any:
        return history(self.case.run, self.observable, aligned_to=self.case.reference)

    @cached_property
    def _begun(self) -> dict[int, dict[str, np.ndarray[Any, Any]]]:
        return begun_with(self.case.run.clients[0])
