"""Rule: a metric holds one replica's value, or the sum of copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from harness.evidence.trace import Step
from harness.judging.explain._prediction import Predicting, check, evident, judged
from harness.judging.explain._view import CaseView, Floats
from harness.judging.explain.protocol import Attempt, Rule

NOT_AGGREGATED = "metric_not_aggregated"
_OF_SHARES = (
    "Give the metric the losses of the examples. It takes the mean of what replicas give it, so that the share of a "
    "global sum has to be multiplied by strategy.num_replicas_in_sync before, and a mean must not be."
)
_CURE = (
    "Create Keras metrics inside strategy.scope() and call update_state inside strategy.run: their state then is "
    "summed over replicas when result() is read. Reduce other values over all replicas: strategy.reduce with "
    "ReduceOp.SUM for counts and sums, or sums and counts apart for a mean."
)


_CHANCE = 1 / 8


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    if view.replicas < 2:
        return
    for step in (*view.steps("metrics"), None):
        if step is not None and step > view.horizon > 0:
            return  # the variables are wrong by then, and the metrics with them
        for name in view.wrong("metrics", step):
            yield from () if step is None else _of_updates(view, step, name)
            for text, predicted, gain in _models(view, step, name):
                yield _attempt(view, step, name, text, predicted, gain)
        if view.wrong("metrics", step):
            return


def _of_updates(view: CaseView, step: int, name: str) -> list[Attempt | None]:
    """Of a mean of which it was seen what replicas add to it; nothing of any other metric."""
    records = view.moments[step].records
    seen = [record.seen for record in records if isinstance(record, Step) and record.seen is not None]
    if all(mean.name != name for each in seen for mean in each.means):
        return []
    count, truth = view.replicas, view.truth("metrics", step, name)
    share = f"1/{count} of it, since each replica adds its share, and counts as one"
    times = f"{count} times as much, since each replica adds so much more"
    found = [_attempt(view, step, name, share, truth / count, 1), _attempt(view, step, name, times, count * truth, 1)]
    return [attempt and replace(attempt, cure=_OF_SHARES) for attempt in found]


def _attempt(view: CaseView, step: int | None, name: str, text: str, predicted: Floats, gain: float) -> Attempt | None:
    observed, truth = view.value("metrics", step, name), view.truth("metrics", step, name)
    when = "at the end" if step is None else f"at step {step}"
    return judged(
        NOT_AGGREGATED,
        f"The metric {name!r} is {_shown(observed)} {when} where {_shown(truth)} is right: {text}.",
        [replace(check(view, "metrics", step, name, predicted, gain), dtype="float32")],
    )


def _shown(array: Floats) -> str:
    return f"{array.item():.6g}" if array.size == 1 else f"an array ({float(array.flat[0]):.6g}, ...)"


def _models(view: CaseView, step: int | None, name: str) -> Iterator[tuple[str, Floats, float]]:
    """(what it is, the value that this predicts, by how much that multiplies the bound)."""
    import numpy as np

    count, truth = view.replicas, view.truth("metrics", step, name)
    observed = view.value("metrics", step, name)
    parts = view.parts("metrics", step, name)
    weights = _examples_seen(view, step)
    if parts is not None and len(parts) == count:
        shares = [1 / count] * count if weights is None else [weight / sum(weights) for weight in weights]
        middle = np.sum([share * part for share, part in zip(shares, parts, strict=True)], axis=0)
        if np.allclose(middle, truth, rtol=1e-5, atol=np.max(view.bound("metrics", name, step), initial=0.0)):
            yield "the sum of the replicas' means, each of which is a value by itself", np.sum(parts, axis=0), count
    yield f"{count} times as much, the sum of {count} copies", count * truth, count
    if weights is not None and truth.size == 1 and _whole(truth) and _whole(observed):
        for replica, weight in enumerate(weights):
            if _whole(truth * weight / sum(weights)):
                text = f"the share of replica {replica}, which had {weight} of {sum(weights)} examples"
                yield text, truth * weight / sum(weights), 1
    elif truth.size == 1:
        yield from (
            (f"replica {replica}'s value alone", value, count) for replica, value in _own_values(view, step, name)
        )
    yield f"1/{count} of it, one replica's share", truth / count, 1


def _evidence(view: CaseView) -> Iterable[Attempt | None]:
    """Every wrong value is a whole number over one replica's examples, as a fraction of them would be."""
    steps = [
        step for step in (*view.steps("metrics"), None) if step is None or step <= view.horizon or not view.horizon
    ]
    for name in dict.fromkeys(name for step in steps for name in view.wrong("metrics", step)):
        found = [(step, _examples_seen(view, step)) for step in steps if name in view.wrong("metrics", step)]
        values = [
            (view.value("metrics", step, name), view.truth("metrics", step, name), counts) for step, counts in found
        ]
        if any(counts is None or value.size != 1 or _whole(value) for value, _, counts in values):
            continue
        own = all(
            counts and _fraction(value, counts[0]) and _fraction(truth, sum(counts)) for value, truth, counts in values
        )
        chance = view.replicas ** -float(len(values))
        if own and chance <= _CHANCE:
            yield evident(
                NOT_AGGREGATED,
                f"The metric {name!r} is wrong {len(values)} times, and each time a whole number over the examples "
                f"that the first replica has seen ({', '.join(str(counts[0]) for _, _, counts in values if counts)}); "
                f"of fractions of all examples {chance:.2g} would be by chance. It seems to be one replica's value.",
            )


RULES: tuple[Rule, ...] = (Predicting(NOT_AGGREGATED, 70, _attempts, _evidence, cure=_CURE),)


# What one replica's value of a metric would be, and whether a value is a whole number or a fraction.


def _examples_seen(view: CaseView, step: int | None) -> list[int] | None:
    """How many examples each replica has seen up to and including a step; at the end: in all."""
    steps = [other for other in view.moments if other is not None and (step is None or other <= step)]
    shards = [view.shards(other) for other in steps]
    if not steps or any(found is None for found in shards):
        return None
    return [sum(len(found[replica]) for found in shards if found) for replica in range(view.replicas)]


def _whole(array: Floats) -> bool:
    """Whether all are whole numbers."""
    import numpy as np

    return bool(np.all(array == np.round(array)))


def _fraction(array: Floats, denominator: int) -> bool:
    """Whether a value is a whole number over the denominator, up to float32's rounding."""
    import numpy as np

    times = array * denominator
    return bool(np.all(np.abs(times - np.round(times)) <= 1e-6 * np.maximum(1.0, np.abs(times))))


def _own_values(view: CaseView, step: int | None, name: str) -> Iterator[tuple[int, Floats]]:
    """Each replica's value: of a mean metric's state (total over count), or of the loss that it contributed."""
    steps = [other for other in view.steps("loss") if step is None or other <= step]
    state = _state(view, step)
    if state is not None:
        yield from (
            (replica, total / count) for replica, (total, count) in enumerate(zip(*state, strict=True)) if count
        )
    parts = [view.parts("loss", other, "loss") for other in steps]
    shards = [view.shards(other) for other in steps]
    if not steps or any(part is None for part in parts) or any(shard is None for shard in shards):
        return
    for replica in range(view.replicas):
        values = [
            part[replica] * sum(map(len, shard)) / len(shard[replica])
            for part, shard in zip(parts, shards, strict=True)
            if part is not None and shard is not None and shard[replica] and part[replica].size == 1
        ]
        if values:
            yield replica, values[-1]
            yield replica, sum(values[1:], values[0]) / len(values)


def _state(view: CaseView, step: int | None) -> tuple[list[Floats], list[Floats]] | None:
    names = view.names("variables", step)
    total = next(
        (name for name in names if name.endswith("total") and len(view.copies(step, name)) == view.replicas), None
    )
    if total is None or (count := total.removesuffix("total") + "count") not in names:
        return None
    return view.copies(step, total), view.copies(step, count)
