"""Comparing arrays element by element, and the five laws that compare a run's values with its reference's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.laws._counters import is_counter
from harness.laws.protocol import Case, Finding, Judgement, judged, not_judged
from harness.observed import Observed, history, is_integer, moments, show_rows
from harness.trace import Array

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "FINDINGS_MAX",
    "Difference",
    "MatchesReference",
    "compare",
    "differing_bits",
    "finite_elements",
    "first_per_value",
    "number",
    "place",
    "show",
]

FINDINGS_MAX = 10
"""Findings kept per law; the first one's text counts them all."""


@dataclass(frozen=True)
class Difference:
    """The worst element of one comparison; numbers are None and `text` says why when the arrays cannot be compared.

    `elements` is how many were compared: none of an empty array, nor of one that is nowhere finite in the reference.
    """

    ratio: float
    text: str = ""
    index: tuple[int, ...] = ()
    observed: float | None = None
    expected: float | None = None
    elements: int = 1


def place(step: int | None, observable: str, name: str | None = None, index: tuple[int, ...] = ()) -> str:
    """`step 3, variables 'dense/kernel'[2, 1]`, or `at the end, ...`."""
    when = "at the end" if step is None else f"step {step}"
    what = observable if name is None or observable == "loss" else f"{observable} {name!r}"
    return f"{when}, {what}{list(index) if index else ''}"


def show(number: Any) -> str:
    """The shortest digits that distinguish a NumPy scalar from its neighbours of the same dtype."""
    return str(number)


def number(value: Any) -> float:
    """A finding's number; of a complex value its magnitude."""
    return float(abs(value)) if value.dtype.kind == "c" else float(value)


def compare(run: Observed, reference: Observed, bound: float) -> Difference:
    """Max-norm comparison of two global values, over the elements at which the reference is finite.

    Integers and booleans must be equal whatever the bound. A run that is not finite where the reference is has an
    infinite ratio. Where the reference is NaN or infinite it says nothing about the run: every error would look equal.
    """
    import numpy as np

    if run.problem or reference.problem:
        return Difference(float("inf"), str(run.problem or f"in the reference: {reference.problem}"))
    if run.array.shape != reference.array.shape:
        return Difference(float("inf"), f"has shape {run.array.shape}, expected {reference.array.shape}")
    if run.rows != reference.rows:
        return Difference(float("inf"), f"has rows of {show_rows(run.rows)}, expected {show_rows(reference.rows)}")
    known = finite_elements(reference.array)
    elements = int(np.count_nonzero(known))
    if elements == 0:
        return Difference(0.0, elements=0)
    if is_integer(run.dtype) and is_integer(reference.dtype):
        bound = 0.0
    error = np.where(known, _errors(run.array, reference.array), 0.0)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(error)), error.shape))
    worst = float(error[index])
    ratio = 0.0 if worst == 0 else worst / bound if bound > 0 else float("inf")
    observed, expected = run.array[index], reference.array[index]
    text = (
        f"observed {show(observed)}, expected {show(expected)}, error {worst:.3g}, bound {bound:.3g}, ratio {ratio:.3g}"
    )
    if run.dtype != reference.dtype:
        text += f" (as {run.dtype}, the reference as {reference.dtype})"
    return Difference(ratio, text, index, number(observed), number(expected), elements)


def finite_elements(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where an array is neither NaN nor infinite, which integers and booleans never are."""
    import numpy as np

    return np.isfinite(array) if array.dtype.kind in "fc" else np.ones(array.shape, bool)


def _errors(run: np.ndarray[Any, Any], reference: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Absolute differences as float64: 0 where equal, infinite where only one of the two is finite."""
    import numpy as np

    if run.dtype.kind in "biu" and reference.dtype.kind in "biu":
        # Subtracting integers may wrap around, and the verdict needs only equality; the report can do with float64.
        error = np.abs(run.astype(np.float64) - reference.astype(np.float64))
        return np.where(run == reference, 0.0, np.maximum(error, 1.0))
    wide = np.complex128 if "c" in (run.dtype.kind, reference.dtype.kind) else np.float64
    ours, truth = run.astype(wide), reference.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(ours == truth, 0.0, np.abs(ours - truth))
    return np.where(np.isnan(error), np.inf, error)


def differing_bits(a: Array, b: Array) -> Difference | None:
    """The element at which two arrays are furthest apart, in units in the last place; None when bit-identical."""
    import numpy as np

    if a == b:
        return None
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return Difference(float("inf"), f"{a.dtype} of shape {a.shape} against {b.dtype} of shape {b.shape}")
    if a.rows != b.rows:
        return Difference(float("inf"), f"rows of {show_rows(a.rows)} against {show_rows(b.rows)}")
    ours, theirs = a.numpy(), b.numpy()
    if ours.dtype.kind == "f":
        distance = _ulps(ours, theirs, a.dtype)
        apart = f"{int(distance.max())} ulp apart"
    else:
        distance = (ours != theirs).astype(np.uint64)
        apart = "not equal"
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), distance.shape))
    x, y = ours[index], theirs[index]
    if np.isnan(x) or np.isnan(y):
        apart = "not bit-identical"
    return Difference(float("inf"), f"{show(x)} against {show(y)}, {apart}", index, number(x), number(y))


def _ulps(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Steps between representable numbers, as uint64; -0.0 and 0.0 are one apart."""
    import numpy as np

    bits = a.dtype.itemsize * 8
    sign = np.uint64(1 << (bits - 1))
    mask = np.uint64((1 << bits) - 1)

    def rank(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        raw = array.view(f"uint{bits}").astype(np.uint64)
        return np.where(raw & sign, raw ^ mask, raw | sign)

    x, y = rank(a), rank(b)
    # bfloat16 is stored as float32, whose lower half is then unused.
    return np.asarray(np.where(x > y, x - y, y - x) >> np.uint64(16 if dtype == "bfloat16" else 0))


def first_per_value(findings: list[tuple[Finding, float]]) -> tuple[Finding, ...]:
    """The first finding of each value: earliest step first, worst ratio first within a step, capped."""
    first: dict[tuple[str | None, str | None], tuple[Finding, float]] = {}
    for finding, ratio in findings:
        first.setdefault((finding.variable, finding.task), (finding, ratio))
    order = sorted(first.values(), key=lambda pair: (pair[0].step is None, pair[0].step or 0, -pair[1]))
    kept = [finding for finding, _ in order[:FINDINGS_MAX]]
    if len(findings) > 1:
        kept[0] = replace(kept[0], text=f"{kept[0].text} [the first of {len(findings)} differences]")
    return tuple(kept)


@dataclass(frozen=True)
class MatchesReference:
    """The law that one observable equals the reference's, within the tolerance, at every step and at the end.

    A value that only one of the two recorded at a step that both reached is a finding.
    """

    id: str
    observable: str
    order: int
    suffices: bool = True

    def judge(self, case: Case) -> Judgement:
        """Compare every (value, step) that either recorded."""
        run = history(case.run, self.observable, aligned_to=case.reference)
        reference = history(case.reference, self.observable)
        if not run and not reference:
            return not_judged(self.id, f"neither the run nor the reference recorded {self.observable}")
        findings: list[tuple[Finding, float]] = []
        ratios: list[float] = []
        recorded = 0
        for step in _common_steps(case):
            for name, bound, difference in self._differences(case, step, run.get(step), reference.get(step)):
                recorded += 1
                if difference.elements:
                    ratios.append(difference.ratio)
                if difference.ratio > 1:
                    findings.append(
                        (self._finding(step, name, bound, difference, run.get(step, {}).get(name)), difference.ratio)
                    )
        if not recorded:
            return not_judged(self.id, f"the run and the reference recorded {self.observable} at no step in common")
        if not ratios:
            what = f"none of the {recorded} recorded {self.observable}"
            return not_judged(self.id, f"{what} has an element that is finite in the reference")
        return judged(self.id, len(ratios), first_per_value(findings), max(ratios), recorded)

    def _differences(
        self, case: Case, step: int | None, run: dict[str, Observed] | None, reference: dict[str, Observed] | None
    ) -> Iterator[tuple[str, float, Difference]]:
        run, reference = run or {}, reference or {}
        for name in [*reference, *(name for name in run if name not in reference)]:
            bound = case.tolerance.bound(self.observable, name, step)
            if name not in run:
                yield name, bound, Difference(float("inf"), "recorded by the reference, but not by the run")
            elif name not in reference:
                yield name, bound, Difference(float("inf"), "recorded by the run, but not by the reference")
            elif self.observable == "variables" and _counts_retries(case, name, run[name], reference[name]):
                yield name, bound, Difference(0.0)
            else:
                yield name, bound, compare(run[name], reference[name], bound)

    def _finding(
        self, step: int | None, name: str, bound: float, difference: Difference, run: Observed | None
    ) -> Finding:
        numeric = difference.observed is not None
        return Finding(
            law=self.id,
            text=f"{place(step, self.observable, name, difference.index)}: {difference.text}",
            task=run.task if run else None,
            step=step,
            observable=self.observable,
            variable=None if self.observable == "loss" else name,
            index=difference.index if numeric else None,
            observed=difference.observed,
            expected=difference.expected,
            bound=bound if numeric else None,
        )


def _counts_retries(case: Case, name: str, run: Observed, reference: Observed) -> bool:
    """Whether it counts updates, and no more of them than closures were scheduled and run again.

    A coordinator runs a closure again whose worker was lost, also if it had been applied there.
    """
    retried = sum(client.counters.retried for client in case.run.clients)
    usable = not (run.problem or reference.problem) and run.array.shape == reference.array.shape == ()
    if not retried or not usable or not is_counter(name) or not is_integer(run.dtype):
        return False
    return 0 <= int(run.array) - int(reference.array) <= retried


def _common_steps(case: Case) -> list[int | None]:
    """The moments that both reached; a missing one is for `steps_match_reference` to report."""
    reached = {moment.step for moment in moments(case.reference)}
    return [moment.step for moment in moments(case.run, aligned_to=case.reference) if moment.step in reached]
