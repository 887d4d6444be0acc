"""Rule: replicas with unequal numbers of examples were averaged with equal weights."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._prediction import Predicting, evident, judged
from harness.judging.explain._view import CaseView
from harness.judging.explain._weights import reweighted, uneven
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.wording import joined

_ID = "mean_of_replica_means"
_CURE = (
    "Divide the sum over a replica's examples by the number of examples in the global batch, "
    "tf.nn.compute_average_loss(per_example_loss, global_batch_size=...), and reduce with ReduceOp.SUM; or give every "
    "replica the same number of examples with batch(..., drop_remainder=True) or per-example weights of zero."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    for observable, step in _wrong(view):
        counts = uneven(view, step)
        if counts is None or _are_alike(view, observable, step):
            continue
        shares, told = [count / sum(counts) for count in counts], joined([*map(str, counts)])
        for divided in (True, False):
            yield judged(
                _ID,
                f"At step {step} the replicas had {told} examples, and what they contributed to the "
                f"{observable} gives the reference's value when each is weighted by its share of the examples; they "
                f"were {'averaged' if divided else 'summed'} with equal weights.",
                list(reweighted(view, observable, step, shares, divided)),
            )


def _are_alike(view: CaseView, observable: str, step: int) -> bool:
    """Whether each replica has the same, as where all have the whole loss: then any weights give the same mean."""
    import numpy as np

    found = [view.parts(observable, step, name) for name in view.names(observable, step)]
    return all(parts is not None and all(np.array_equal(part, parts[0]) for part in parts) for parts in found)


def _evidence(view: CaseView) -> Iterable[Attempt | None]:
    yield from (_circumstantial(view, observable, step) for observable, step in _wrong(view)[:1])


def _wrong(view: CaseView) -> list[tuple[str, int]]:
    return [(what, step) for what in ("loss", "gradients") if (step := view.origin(what)) is not None]


def _circumstantial(view: CaseView, observable: str, step: int) -> Attempt | None:
    """Without parts: right as long as shards are even, and a loss in the range that the model allows."""
    counts = uneven(view, step)
    before = [other for other in view.steps(observable) if other < step]
    if counts is None or not before or any(uneven(view, other) is not None for other in before):
        return None
    if view.parts(observable, step, view.names(observable, step)[0]) is not None:
        return None  # the prediction above has spoken
    smallest, largest = min(count for count in counts if count), max(counts)
    even, told = sum(counts) / len(counts), joined([*map(str, counts)])
    if observable == "loss":
        loss, truth = (
            float(array.sum()) for array in (view.value("loss", step, "loss"), view.truth("loss", step, "loss"))
        )
        if truth > 0 and not even / largest * truth <= loss <= even / smallest * truth:
            return None
    return evident(
        _ID,
        f"All is right while the replicas have equally many examples; the {observable} is wrong from step {step} on, "
        f"the first at which they do not ({told}), by no more than averaging the replicas' means with equal "
        f"weights would explain. Only reduced values were recorded, so this is evidence, not proof: report the "
        f"PerReplica values to have it proved.",
    )


RULES: tuple[Rule, ...] = (Predicting(_ID, 35, _attempts, _evidence, cure=_CURE),)
