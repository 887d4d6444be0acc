"""By what factor a script's replicas contribute more than they should, by the script as it runs on one device.

The reference of a script has the whole batch and divides by what the script divides by. Where that is the batch of one
replica, written as a number, it divides as wrongly as the run does. So the script is also run as if it were started on
one device, with the examples and draws of the run: there each replica of the cluster has to contribute the R-th part
of what that process computes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.evidence.arrays import wide
from harness.evidence.observed import history, is_integer
from harness.evidence.trace import ClientTrace, RunTrace, Seen, SeenVariable
from harness.evidence.witness_values import completed
from harness.judging.reduction import NEAR, added, multiple, parts_of, reduced_of, share_of
from harness.judging.verdict import Verdict

if TYPE_CHECKING:
    import numpy as np

    Gradients = list[np.ndarray]


SCALED = 0.2
"""By so much a factor differs from one that says something: it is a whole number, or one by that."""
_EXACT = 1e-3
"""The same where what is left over may be a mistake."""
_STEPS = 4
"""The first steps, of which it is looked at how much they take of their gradients."""
_GRADIENTS, _ELEMENTS = 8, 4096
"""As many of these, and as many numbers of each: all variables of its shape may be what follows a gradient."""
_TOLD_BY = 3
"""Elements of a gradient that tell two constants."""


@dataclass(frozen=True)
class NativeRun:
    """What is known from a script as it is on one device, told of one replica, that has followed the run.

    Attributes:
        factor: how many times as much as it should a step of the run takes; None where that cannot be known.
        verdict: that on the run, if each of its steps is what the script computes so.
        differs: whether one of them is not, of the same examples.
    """

    factor: float | None = None
    verdict: Verdict | None = None
    differs: bool = False


def factor_of(
    run: RunTrace, native: RunTrace, replicas: int, alike: RunTrace | None = None, *, first: bool = False
) -> float | None:
    """How many times as much as it should a step of the run takes; None where that cannot be known.

    It is known only where gradients are reduced as they were taken: what is divided in between may be what is wrong.

    Args:
        run: of the script in the cluster.
        native: one replica that is told that there is one, and was given the examples of all, or as many as the run has
            with those of each.
        replicas: of the run, in sync.
        first: whether it was given those of the first replica only.
        alike: the reference, if the run's variables are those of its. So it is known whether the run has added up or
            averaged its gradients where no reduction shows it, as none does where variables aggregate what is assigned.
    """
    if is_by_hand(run) and is_by_hand(native):
        return None if first else multiple(moved(run.clients[0]), moved(native.clients[0]))
    begun = [first_taken(client) for client in run.clients]
    clients, one = [seen for seen in begun if seen is not None], first_taken(native.clients[0])
    parts = [part for seen in clients for part in parts_of(seen)]
    if one is None or not one.gradients or len(clients) < len(begun) or len(parts) != replicas:
        return None
    if any(len(part) != len(parts[0]) for part in parts):
        return None
    whole, each = added(parts), parts_of(one)
    scale = _scale(reduced_of(one), each[0]) if len(each) == 1 else 1.0
    share = share_of(reduced_of(clients[0]), [scale * array for array in whole], replicas)
    if share is None and alike is not None and (times := times_of(run, alike, replicas)):
        share = 1.0 / times
    taken = [replicas * array for array in parts[0]] if first else whole
    found = multiple(taken, [array / len(each) for array in added(each)])
    if found is None or share is None:
        return None
    later = taken_of_sum(run, native)
    return found * share * (1.0 if later is None else later)


def first_taken(client: ClientTrace) -> Seen | None:
    """The first step in which gradients were seen: in those before it, replicas only set variables."""
    return next((seen for seen in client.seen if seen.gradients), None)


def is_by_hand(run: RunTrace) -> bool:
    """Whether the program has taken no gradients, which is more than that none was seen: an optimizer hides a scale."""
    return all(seen.by_hand for seen in run.clients[0].seen)


def moved(client: ClientTrace) -> Gradients:
    """What the first step has added to each variable of floating point; empty if that was not seen."""
    begun, ended = client.start, next((seen.variables for seen in client.seen), None)
    if begun is None or ended is None or [each.name for each in begun.variables] != [each.name for each in ended]:
        return []
    pairs = [(one.copies[0], other.copies[0]) for one, other in zip(begun.variables, ended, strict=True)]
    return [wide(after.numpy()) - wide(before.numpy()) for before, after in pairs if before.is_floating]


def rows_for_own(trace: RunTrace) -> float | None:
    """How many examples a script is given where it first trains for each that it has by itself; None of no step."""
    client = trace.clients[0]
    seen = first_taken(client) or next(iter(client.seen), None)
    if seen is None or seen.given is None:
        return None if seen is None else 1.0
    return seen.given.rows / seen.given.own if seen.given.own else None


def all_move_otherwise(run: RunTrace, other: RunTrace) -> bool:
    """Whether each variable that a run moves is moved otherwise, in some step, by a process that follows it."""
    import numpy as np

    ours, theirs = (history(trace, "variables") for trace in completed((run, other)).traces)
    unlike = dict[str, bool]()
    for step, values in ours.items():
        before, others = ours.get(step - 1 if step else None, {}), theirs.get(step, {})
        for name in values.keys() & before.keys() & others.keys():
            each = [values[name], before[name], others[name]]
            if any(one.problem or is_integer(one.dtype) for one in each):
                continue
            after, begun, otherwise = (wide(one.array) for one in each)
            move = float(np.linalg.norm(after - begun))
            if move > _EXACT * float(np.linalg.norm(after)):
                unlike[name] = unlike.get(name, False) or float(np.linalg.norm(after - otherwise)) > NEAR * move
    return bool(unlike) and all(unlike.values())


def _scale(reduced: Gradients, taken: Gradients) -> float:
    """By what one replica multiplies its gradients before they are reduced, as by one over the scale of a loss."""
    import numpy as np

    largest = max((float(np.linalg.norm(array)) for array in taken), default=0.0)
    if not largest or share_of(reduced, taken, 1) is not None:
        return 1.0
    scales = [float(np.linalg.norm(array)) / largest for array in reduced]
    found = [each for each in scales if each and share_of(reduced, [each * a for a in taken], 1, near=_EXACT)]
    return found[0] if found and max(found) <= (1.0 + NEAR) * min(found) else 1.0


def times_of(run: RunTrace, reference: RunTrace, replicas: int) -> float | None:
    """How many times those of the reference the gradients are that the run takes first, or the moves by hand."""
    if is_by_hand(run) and is_by_hand(reference):
        return multiple(moved(run.clients[0]), moved(reference.clients[0]))
    sums = []
    for trace, count in ((run, replicas), (reference, 1)):
        seen = [first_taken(client) for client in trace.clients]
        parts = [part for each in seen if each is not None for part in parts_of(each)]
        if not parts or seen[0] is None or any(len(part) != len(parts[0]) for part in parts):
            return None
        whole = added(parts)
        sums.append((whole, share_of(reduced_of(seen[0]), whole, count)))
    (mine, share), (truth, other) = sums
    found = multiple(mine, truth)
    if found is None or share is None or other is None:
        return found
    later = taken_of_sum(run, reference)
    return found * share / other * (1.0 if later is None else later)


def taken_of_sum(run: RunTrace, native: RunTrace) -> float | None:
    """How much of what left its reduction a step of the run takes, where one of one device takes all: what is divided
    by the number of replicas after the sum. None where that is not known, as a clip or a sign hides it, or where it is
    more, as by a rate that grows with the replicas.

    A variable, or a slot such as a momentum, holds a constant times what it held before and a constant times the
    gradient. In steps of unlike gradients these are the same constants.
    """
    ours = {place: each[0] for place, each in _constants(run.clients[0]).items() if _is_one_size(each)}
    theirs = {place: each[0] for place, each in _constants(native.clients[0]).items()}
    gradients = {number for number, *_ in ours}
    shares = [ours[place][1] / theirs[place][1] for place in ours if place in theirs and theirs[place][1]]
    if not shares or gradients < {number for number, *_ in theirs}:
        return None
    alike = max(shares) - min(shares) <= NEAR * abs(shares[0])
    return shares[0] if alike and shares[0] <= 1.0 + NEAR else None


_Place = tuple[int, str, int]
"""The number of a gradient, and the name of a variable with its number among those of that name."""


def _constants(client: ClientTrace) -> dict[_Place, list[tuple[float, float]]]:
    """Of variables that follow a gradient of their shape its size and its constant, at each step."""
    import numpy as np

    begun = () if client.start is None else client.start.variables
    seen = [each for each in client.seen if each.variables is not None][:_STEPS]
    held = [_named(begun), *(_named(each.variables or ()) for each in seen)]
    found = dict[_Place, list[tuple[float, float]]]()
    least = min(_TOLD_BY, max((gradient.size for step in seen for gradient in reduced_of(step)), default=0))
    for step, before, after in zip(seen, held, held[1:], strict=False):
        for number, gradient in enumerate(reduced_of(step)[:_GRADIENTS]):
            for (name, place), ends in after.items():
                begins = before.get((name, place), np.zeros(ends.shape))  # as a slot that is made in the first step
                if ends.shape == begins.shape == gradient.shape and gradient.size >= least:
                    constant = _fit(begins, ends, gradient)
                    found.setdefault((number, name, place), []).append((float(np.linalg.norm(gradient)), constant))
    return {place: each for place, each in found.items() if all(math.isfinite(constant) for _, constant in each)}


def _named(variables: Sequence[SeenVariable]) -> dict[tuple[str, int], np.ndarray]:
    counts = Counter[str]()
    found = {}
    for each in variables:
        if each.copies[0].is_floating:
            found[each.name, counts[each.name]] = wide(each.copies[0].numpy())
        counts[each.name] += 1
    return found


def _fit(before: np.ndarray, after: np.ndarray, gradient: np.ndarray) -> float:
    """The constant times the gradient that a variable got; not a number if it is no such sum."""
    import numpy as np

    before, after, gradient = (each.ravel()[:_ELEMENTS] for each in (before, after, gradient))
    terms = np.stack([before, gradient], axis=1)
    if gradient.size < _TOLD_BY:  # too few to tell both constants: as a step does that takes a gradient off
        found = np.array([1.0, *np.linalg.lstsq(terms[:, 1:], after - before, rcond=None)[0]])
    else:
        found = np.linalg.lstsq(terms, after, rcond=None)[0]
    off = float(np.linalg.norm(terms @ found - after))
    moved = float(np.linalg.norm(found[1] * gradient))
    return float(found[1]) if moved and off <= _EXACT * moved else float("nan")


def _is_one_size(steps: list[tuple[float, float]]) -> bool:
    """Whether a variable gets the same constant in all steps, whose gradients are not all of one size."""
    sizes, constants = zip(*steps, strict=True)
    if max(sizes) <= (1.0 + SCALED) * min(sizes):
        return False
    return bool(max(constants) - min(constants) <= _EXACT * max(map(abs, constants)))


def is_whole(factor: float) -> bool:
    """Whether a factor says something by itself: it is a whole number, or one by that."""
    size = abs(factor)
    return size > 0 and any(abs(each - max(1, round(each))) <= SCALED for each in (size, 1 / size))


def adds_up(run: RunTrace, one: RunTrace, replicas: int) -> bool:
    """Whether the replicas' gradients add up to a multiple of one device's, and are reduced as they were taken.

    Then nothing is done on a replica that differs from what is done to all: no clip before a reduction, no mean over
    what is not masked there. It is asked of every step of which gradients were seen.

    Args:
        run: of a script.
        one: one replica that was given the examples of all.
        replicas: of the run, in sync.
    """
    clients = [dict(enumerate(client.seen)) for client in run.clients]
    pending: Gradients | None = None
    reduced = False
    for number, truth in enumerate(one.clients[0].seen):
        seen = [step for client in clients if (step := client.get(number)) is not None]
        if not truth.gradients:
            continue  # of this step no numbers are kept
        parts = [part for each in seen for part in parts_of(each)]
        if len(seen) < len(clients) or len(parts) != replicas or any(len(part) != len(parts[0]) for part in parts):
            return False
        whole = added(parts)
        if multiple(whole, parts_of(truth)[0], near=_EXACT) is None:
            return False
        pending = whole if pending is None else added([pending, whole])
        if found := reduced_of(seen[0]):
            # What was reduced may have been accumulated since the last time.
            if all(share_of(found, each, replicas, near=_EXACT) is None for each in (whole, pending)):
                return False
            pending, reduced = None, True
    return reduced
