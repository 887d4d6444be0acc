"""The model behind the scaling rules: the reported loss is the reference's times a constant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness.evidence.comparing import compare
from harness.evidence.observed import History, Observed, history, is_integer
from harness.judging.explain._prediction import judged
from harness.judging.explain._reductions import is_of_others
from harness.judging.explain._response import scaled, slopes
from harness.judging.explain._view import view_of
from harness.judging.explain.protocol import Case, Explanation
from harness.judging.tolerance import eps
from harness.subject.strategies import StrategyCase, kind_of, strategy_case

if TYPE_CHECKING:
    import numpy as np


_SCALING_ROUNDINGS = 2.0
"""Roundings by which a scaled value may differ from the scaled reference: one by the program, one by the reference's
own last bit.
"""
_AGAINST = 0.9
"""A part of a right move that is less than what an optimizer makes of a larger gradient."""


def replicas(case: Case) -> int | None:
    """The number of replicas in sync, when there is more than one."""
    count = case.run.header.replicas
    return count if count > 1 and _mesh(case) is None else None


def along_batch(case: Case) -> int | None:
    """The devices along the batch axis of a mesh, when there are several."""
    mesh = _mesh(case)
    return mesh.replicas if mesh is not None and mesh.replicas > 1 else None


def along_model(case: Case) -> int | None:
    """The devices along the model axis of a mesh, when there are several, and not as many as along the other."""
    mesh = _mesh(case)
    return mesh.model if mesh is not None and mesh.model not in (1, mesh.replicas) else None


def _mesh(case: Case) -> StrategyCase | None:
    """The strategy of the run, if it is a mesh."""
    kind = kind_of(name := case.run.header.strategy)
    return strategy_case(name) if kind is not None and kind.on_mesh else None


def workers(case: Case) -> int | None:
    """The number of client processes, when there are several and it is not the number of replicas."""
    count = case.run.header.clients
    return count if count > 1 and _mesh(case) is None and count != case.run.header.replicas else None


@dataclass(frozen=True)
class _Series:
    """One observable of the run next to the reference's, at the steps that both recorded."""

    case: Case
    observable: str

    @cached_property
    def run(self) -> History:
        return history(self.case.run, self.observable, aligned_to=self.case.reference)

    @cached_property
    def reference(self) -> History:
        return history(self.case.reference, self.observable)

    @cached_property
    def steps(self) -> list[int]:
        return [step for step in self.run if step is not None and step in self.reference]

    def differs(self, step: int, factor: Fraction = Fraction(1)) -> bool:
        """Whether any value differs from factor x the reference's by more than its bound, scaled alike."""
        run, reference = self.run[step], self.reference[step]
        return any(name in run and not self._fits(step, name, factor) for name in reference)

    def _fits(self, step: int, name: str, factor: Fraction) -> bool:
        import numpy as np

        value, truth = self.run[step][name], self.reference[step][name]
        bound = self.case.tolerance.bound(self.observable, name, step)
        if factor == 1:
            return compare(value, truth, bound).ratio <= 1
        if value.problem or truth.problem or is_integer(truth.dtype) or is_integer(value.dtype):
            return False
        predicted = Observed(value.dtype, truth.array.astype(np.float64) * float(factor))
        bound = bound * float(factor)
        whole = max(factor.numerator, factor.denominator)
        if whole & (whole - 1):  # multiplying by a power of two does not round
            largest = float(np.max(np.abs(predicted.array), initial=0.0))
            bound = bound + _SCALING_ROUNDINGS * max(eps(value.dtype), eps(truth.dtype)) * largest
        return compare(value, predicted, bound).ratio <= 1


@dataclass(frozen=True)
class Scaling:
    """Predicts loss = reference x count, or / count, up to the first step after which the variables differ.

    That step is included: its loss was still computed from the right variables. Where no variables were recorded only
    the first step is sure.
    """

    id: str
    priority: int
    count: Callable[[Case], int | None]
    divides: bool
    unit: str
    cure: str

    def explain(self, case: Case) -> Explanation | None:
        """Claim only if the loss is wrong, and the factor reproduces it at every step that is sure."""
        count = self.count(case)
        if count is None or (case.share is not None and _are_changed(case)):
            return None
        factor = Fraction(1, count) if self.divides else Fraction(count)
        loss = _Series(case, "loss")
        horizon = _horizon(case, loss.steps)
        sure = [step for step in loss.steps if step <= horizon]
        wrong = [step for step in sure if loss.differs(step)]
        if not wrong:
            return None if _are_changed(case) else self._hidden(case, count, float(factor))
        if any(loss.differs(step, factor) for step in sure):
            return None
        of_tape = case.share is not None and case.follows  # what comes of that may have no such factor
        if of_tape and (_is_right(case, wrong[0]) or _moves_otherwise(case, wrong[0], factor)):
            return None
        return Explanation(self.id, self._text(loss, wrong[0], count, factor), self.cure)

    def _hidden(self, case: Case, count: int, factor: float) -> Explanation | None:
        """The reported loss is right, but that which was differentiated is not: the gradients have the factor."""
        view = view_of(case)
        found = slopes(view)
        if found is None or (found[1] in view.steps("loss") and view.wrong("loss", found[1])):
            return None
        observable, step, names = found
        if case.follows and _is_right(case, step):
            return None  # the step is right, whatever a tape was asked for
        verb = "divided by" if self.divides else "times"
        what = "gradients are" if observable == "gradients" else "of the optimizer's first moments are"
        text = (
            f"The reported loss is not wrong, but at step {step} all {what} the reference's {verb} {count}, the "
            f"number of {self.unit}: training itself is wrong."
        )
        attempt = judged(self.id, text, scaled(view, observable, step, names, factor))
        return Explanation(self.id, text, self.cure) if attempt is not None and attempt.ratio <= 1 else None

    def _text(self, loss: _Series, step: int, count: int, factor: Fraction) -> str:
        verb = "divided by" if self.divides else "times"
        observed, expected = (_first(series[step]["loss"].array) for series in (loss.run, loss.reference))
        fits = sum(not loss.differs(other, factor) for other in loss.steps)
        return (
            f"{_which(loss.case)} is the reference's {verb} {count}, the number of {self.unit}: at step {step} it is "
            f"{observed} where {expected} is right; the factor reproduces {fits} of {len(loss.steps)} steps. "
            f"{_about_gradients(loss.case, step, factor)}"
        )


def _are_changed(case: Case) -> bool:
    """Whether replicas reduce what they have made of their gradients, which need not have the factor of these."""
    view = view_of(case)
    step = next(iter(view.steps("gradients")), None)
    return step is not None and is_of_others(view, step, view.names("gradients", step))


def _is_right(case: Case, step: int) -> bool:
    """Whether the variables after a step are known to be those of the reference."""
    view = view_of(case)
    return step in view.steps("variables") and not view.wrong("variables", step)


def _moves_otherwise(case: Case, step: int, factor: Fraction) -> bool:
    """Whether the first step moves no variable, nor an optimizer's slot, by as many times more or less, or one against.

    Then what was added up is divided, or multiplied, once more, and it is something else that is wrong. Halfway counts,
    as of weights that decay besides.
    """
    import numpy as np

    view, times = view_of(case), []
    for name in view.wrong("variables", step):
        ours, truth = view.value("variables", step, name), view.truth("variables", step, name)
        # An optimizer's slots begin at zero, where they are made in the first step.
        made = step == 1 and all(client.start is not None for client in case.run.clients)
        begun = next(iter(view.copies_before(step, name)), np.zeros(ours.shape) if made else None)
        # Of a variable in parts each copy is one of them.
        if begun is None or begun.shape != ours.shape or is_integer(view.reference["variables"][step][name].dtype):
            continue
        if moved := float(np.linalg.norm(truth - begun)):
            times.append(float(np.linalg.norm(ours - begun)) / moved)
    halfway = (1.0 + float(factor)) / 2.0
    if not times:
        return False
    if factor > 1:
        return max(times) < halfway or min(times) < _AGAINST
    return min(times) > halfway or max(times) > 1.0 / _AGAINST


def _horizon(case: Case, steps: list[int]) -> int:
    """The last step whose loss is surely computed from the reference's variables."""
    variables = _Series(case, "variables")
    both = [step for step in steps if step in variables.steps]
    if not both:
        return min(steps, default=0)
    return next((step for step in both if variables.differs(step)), max(steps))


def _which(case: Case) -> str:
    if case.share is None:
        return "The reported loss"
    what, how = ("mean", "average") if case.share < 1.0 else ("sum", "add up")
    return f"The {what} of the losses whose gradients replicas {how}"


def _about_gradients(case: Case, step: int, factor: Fraction) -> str:
    gradients = _Series(case, "gradients")
    if step not in gradients.steps or not any(value.array.any() for value in gradients.reference[step].values()):
        return "No gradients were recorded that could tell whether training itself is affected."
    if not gradients.differs(step):
        return "The gradients of that step are right, so only the report is wrong."
    if gradients.differs(step, factor):
        return "The gradients of that step are wrong too, but not by this factor."
    return "The gradients of that step are scaled by it too, so training itself is wrong."


def _first(array: np.ndarray[Any, Any]) -> str:
    return str(array.flat[0]) if array.size else "empty"
