"""Rule: normalisation used the statistics of each replica's own examples."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.evidence.batch_statistics import own_statistics
from harness.judging.explain._prediction import Check, Predicting, evident, judged
from harness.judging.explain._response import span
from harness.judging.explain._view import CaseView, Floats
from harness.judging.explain.protocol import Attempt, Rule

_ID = "batch_statistics_local"
_MEAN = re.compile(r"moving_mean|running_mean")
_CURE = (
    "Normalise with the statistics of the global batch: keras.layers.BatchNormalization(synchronized=True) (tf_keras: "
    "layers.experimental.SyncBatchNormalization), or a normalisation without batch statistics, such as "
    "LayerNormalization; or accept per-replica statistics as a difference in meaning, and keep the per-replica batch "
    "large."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    step = view.first_wrong("variables")
    if view.replicas < 2 or step is None:
        return
    if own_statistics(view.case.reference):  # then only what nobody averages is wrong
        yield from (_copies_apart(view, step, name) for name in view.wrong("variables", step) if _MEAN.search(name))
        return
    pairs = [(name, other) for name in view.names("variables", step) if (other := _variance(view, step, name))]
    for mean, variance in pairs:
        yield _total_variance(view, step, mean, variance)
    for mean, variance in pairs:
        yield _smaller_variance(view, step, mean, variance)


def _copies_apart(view: CaseView, step: int, mean: str) -> Attempt | None:
    """What is right is the mean of the replicas' moving means, and what is kept is the first replica's."""
    copies = view.copies(step, mean)
    if len(copies) != view.replicas or mean not in view.drifted(step):
        return None
    dtype = view.run["variables"][step][mean].dtype
    return judged(
        _ID,
        f"After step {step} each replica has its own {mean}, and their mean is right. What is read, saved and served "
        f"is the first replica's.",
        [
            Check(
                view.truth("variables", step, mean),
                _weighted([1 / len(copies)] * len(copies), copies),
                copies[0],
                view.bound("variables", mean, step),
                dtype,
            )
        ],
    )


def _variance(view: CaseView, step: int, mean: str) -> str | None:
    """The moving variance that belongs to a moving mean."""
    match = _MEAN.search(mean)
    name = "" if match is None else mean[: match.start()] + match[0].replace("mean", "variance") + mean[match.end() :]
    names = [name, name.replace("running_variance", "running_var")]
    return next((found for found in names if match is not None and found in view.names("variables", step)), None)


def _weights(view: CaseView, step: int) -> list[float]:
    shards = view.shards(step)
    counts = [1] * view.replicas if shards is None else [len(shard) for shard in shards]
    return [count / sum(counts) for count in counts] if sum(counts) else [1 / view.replicas] * view.replicas


def _weighted(weights: list[float], copies: list[Floats]) -> Floats:
    import numpy as np

    return np.asarray(np.sum([weight * copy for weight, copy in zip(weights, copies, strict=True)], axis=0))


def _total_variance(view: CaseView, step: int, mean: str, variance: str) -> Attempt | None:
    """The law of total variance, for which the copies of the replicas' statistics are needed.

    With momentum m, a copy of the mean is m * old + (1 - m) * mean_r, one of the variance m * old + (1 - m) * var_r.
    The variance of all examples is the mean of var_r plus the variance of mean_r, so the reference's moving variance
    exceeds the mean of the copies by the variance of the moving means, divided by 1 - m. One number has to fit all
    channels.
    """
    means, variances, weights = view.copies(step, mean), view.copies(step, variance), _weights(view, step)
    if len(means) != view.replicas or len(variances) != view.replicas:
        return None
    middle, within = _weighted(weights, means), _weighted(weights, variances)
    between = _weighted(weights, [(copy - middle) ** 2 for copy in means])
    truth = view.truth("variables", step, variance)
    factors = span([truth - within], [[between]])
    if factors is None or factors[0] < 1:
        return None
    bound = (1 + factors[0]) * view.bound("variables", variance, step)
    dtype = view.run["variables"][step][variance].dtype
    return judged(
        _ID,
        f"After step {step} each replica has its own {mean}; their mean is right, and the reference's {variance} is "
        f"the mean of the replicas' plus the variance between their means (with a momentum of "
        f"{1 - 1 / factors[0]:.4g}, for all {truth.size} channels): each replica normalised with the statistics of "
        f"its own examples.",
        [
            Check(truth, within + factors[0] * between, within, bound, dtype),
            Check(middle, view.truth("variables", step, mean), means[0], view.bound("variables", mean, step), dtype),
        ],
    )


def _smaller_variance(view: CaseView, step: int, mean: str, variance: str) -> Attempt | None:
    """Without copies: the mean of means is right, and every variance is too small, for the means' variance is left "
    "out.
    """
    import numpy as np

    if mean in view.wrong("variables", step) or variance not in view.wrong("variables", step):
        return None
    missing = view.truth("variables", step, variance) - view.value("variables", step, variance)
    if not np.all(missing >= -view.bound("variables", variance, step)):
        return None
    return evident(
        _ID,
        f"After step {step} {mean} is right, but {variance} is too small in {int((missing > 0).sum())} of "
        f"{missing.size} channels and too large in none: the mean of the replicas' variances leaves out the variance "
        f"between their means. Each replica normalised with the statistics of its own examples (evidence, not proof: "
        f"the copies do not show each replica's statistics).",
    )


RULES: tuple[Rule, ...] = (Predicting(_ID, 45, _attempts, cure=_CURE),)
