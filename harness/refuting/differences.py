"""What differs after a batch between the replicas and one device, by more than rounding makes of the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.evidence.eps import EPS
from harness.judging.more_runs import PLAIN
from harness.judging.tolerance import STATE, K
from harness.judging.tolerance.groups import group_units
from harness.judging.tolerance.whole_tensor import length, whole
from harness.recording.tracing import BatchOutcome
from harness.running.step_graphs import StepGraphs

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.float64]]
else:
    Floats = Any

Carried = tuple[Sequence[BatchOutcome], BatchOutcome]
"""What came of a batch in each client, and on one device."""

_SHARE = 1e-2
"""A difference counts from this share of what the step changes on one device: rounding is far from it."""
_BESIDE = 1e-2
"""Of what changes most, a change counts from this share on."""
_OF_VALUE = 1e-5
"""And from this share of the value itself."""
_ALIKE_MIN = 0.5
"""The cosine of two differences that have the same cause."""
_ROUNDED_MAX = 1e-6
"""Of what a step changes most, so much may be rounding in 32 bits."""
_ROUNDING = 1 / 8
"""So many eps of it are it in 16 bits: over all elements of a variable roundings average out."""


@dataclass(frozen=True)
class BatchDifference:
    """The element that differs most: by how many times what is allowed, and by how many bounds of rounding.

    Of the latter none is known where the step was not repeated with noise.
    """

    times: float
    variable: str
    value: str
    expected: float
    found: float
    bounds: float | None

    @property
    def is_plain(self) -> bool:
        """Whether no accident of a few draws explains it."""
        return self.bounds is not None and self.bounds >= PLAIN


def differences_of_batch(
    graphs: StepGraphs, carried: Carried, noisy: Sequence[BatchOutcome] = ()
) -> list[BatchDifference]:
    """What differs in variables that the program reports, or else trains: of each what differs most, the worst first.

    Args:
        graphs: of the step.
        carried: a batch.
        noisy: what came of it on one device with noise of the size of rounding.
    """
    import numpy as np

    runs, alone = carried
    judged = {name for traced in graphs.clients for name in traced.judged}
    kinds = {each.name: each for each in graphs.clients[0].arguments if each.kind == "variable"}
    if not judged:
        judged = {name for name, kind in kinds.items() if kind.trainable}
    changes = {name: _change(alone, name) for name in alone.after if name in judged and name in alone.before}
    largest = max((_largest(each) for each in changes.values()), default=0.0)
    worst: dict[str, BatchDifference] = {}
    for name, change in changes.items():
        kind = kinds.get(name)
        if kind is None or kind.synchronization == "on_read" or (kind.aggregation == "NONE" and kind.replica is None):
            continue
        expected = _wide(alone, name)
        # What is nothing but rounding on one device is so on the replicas, and another one.
        share = max(_SHARE * max(_largest(change), _BESIDE * largest), _OF_VALUE * _largest(expected), 1e-12)
        moved = [_change(each, name) - change for each in noisy if name in each.after]
        own = STATE * EPS.get(alone.after[name][0].dtype, 0.0) * np.abs(expected)
        rounding = _rounding(moved, own, expected) if noisy else None
        found = []
        for run in runs:
            if any(copy != alone.before[name][0] for copy in run.before.get(name, ())):
                continue  # what begins otherwise says nothing of the step
            for copy in (copy.numpy().astype("float64") for copy in run.after.get(name, ())):
                if copy.shape == expected.shape and np.isfinite(expected).all() and copy.size:
                    found += [
                        _most(name, copy, expected, share, rounding),
                        _along(name, copy, expected, change, moved, own),
                    ]
        if (most := max(filter(None, found), key=lambda each: each.times, default=None)) is not None:
            worst[name] = most
    return sorted(worst.values(), key=lambda each: -each.times)


def is_the_same(graphs: StepGraphs, name: str, one: Carried, own: Carried) -> bool:
    """Whether a variable differs after one batch as it does after the program's own, there by more than rounding.

    A gradient that is zero in exact arithmetic is all rounding, which may come of numbers that both batches have.
    """
    first, second = (_wide(runs[0], name) - _wide(reference, name) for runs, reference in (one, own))
    both = length(first) * length(second)
    if not both or float((first * second).sum()) < _ALIKE_MIN * both:
        return False
    after = own[1]
    changed = [
        _change(after, each) for each, (copy, *_) in after.after.items() if each in after.before and copy.dtype in EPS
    ]
    largest = max((length(each) / each.size**0.5 for each in changed if each.size), default=0.0)
    return bool(length(second) / second.size**0.5 > max(_ROUNDED_MAX, _ROUNDING * _coarsest(graphs)) * largest)


def _coarsest(graphs: StepGraphs) -> float:
    """The eps of the coarsest dtype that the step computes in, of those with 16 bits; 0 where it does so in none."""
    dtypes = {dtype for graph in graphs.reference.graphs for node in graph.nodes for dtype in node.dtypes}
    return max((EPS[dtype] for dtype in dtypes & {"bfloat16", "float16"}), default=0.0)


def _most(name: str, found: Floats, expected: Floats, share: float, rounding: Floats | None) -> BatchDifference | None:
    import numpy as np

    off = np.where(np.isfinite(found), np.abs(found - expected), np.inf)
    allowed = np.full(off.shape, share) if rounding is None else np.maximum(share, rounding)
    at = int(np.argmax(off / allowed))
    if off[at] <= allowed[at]:
        return None
    bounds = float(off[at] / rounding[at]) if rounding is not None and rounding[at] else None
    value = f"variable {name!r}[{at}]"
    return BatchDifference(float(off[at] / allowed[at]), name, value, float(expected[at]), float(found[at]), bounds)


def _along(
    name: str, found: Floats, expected: Floats, change: Floats, moved: Sequence[Floats], own: Floats
) -> BatchDifference | None:
    """A change that is a multiple of what it should be: over many elements rounding averages out, a factor does not."""
    import numpy as np

    known = [each for each in moved if np.isfinite(each).all()]
    if (as_whole := whole(change + found - expected, change, known, own)) is None:
        return None
    allowed = max(_SHARE, as_whole.factor_bound if known else 0.0)
    if abs(as_whole.factor - 1.0) <= allowed:
        return None
    value = f"the change of variable {name!r}, in multiples of one device's,"
    bounds = as_whole.factor_ratio if known else None
    return BatchDifference(abs(as_whole.factor - 1.0) / allowed, name, value, 1.0, as_whole.factor, bounds)


def _rounding(moved: Sequence[Floats], own: Floats, expected: Floats) -> Floats:
    """How far rounding may move each element, by the bounds of the derived tier.

    Args:
        moved: by how much more noise has changed it, for each seed.
        own: what rounding does to the state itself.
        expected: the value.
    """
    import numpy as np

    spread = np.max([np.where(np.isfinite(each), np.abs(each), 0.0) for each in (*moved, np.zeros(own.shape))], axis=0)
    bound: Floats = K * group_units(spread, np.abs(expected), examples=False) + own
    return bound


def _wide(outcome: BatchOutcome, name: str) -> Floats:
    values: Floats = outcome.after[name][0].numpy().astype("float64")
    return values


def _change(outcome: BatchOutcome, name: str) -> Floats:
    """By how much each element of a variable changes on one device."""
    change: Floats = _wide(outcome, name) - outcome.before[name][0].numpy().astype("float64")
    return change


def _largest(values: Floats) -> float:
    import numpy as np

    return float(np.max(np.abs(values), initial=0.0))
