"""Keras's metrics, which are running means: their state follows from the value that a run has reported."""

from __future__ import annotations

from typing import Any

from harness.evidence.trace import Value

__all__ = ["means_of", "set_mean"]

# A mean is rounded when it is reported, when its sum is found from it, and when it is divided again.
_ROUNDINGS = 4


def means_of(metrics: Any) -> dict[str, Any]:
    """Those Keras metrics of a list or mapping, by name, that keep a sum and maybe a count; nested ones too."""
    named = metrics.items() if isinstance(metrics, dict) else [(getattr(each, "name", ""), each) for each in metrics]
    found: dict[str, Any] = {}
    for name, metric in named:
        if hasattr(metric, "total") and hasattr(metric, "result"):
            found.setdefault(name, metric)
        elif isinstance(inner := getattr(metric, "metrics", None), (list, tuple)):  # of compile(metrics=)
            found = {**means_of(inner), **found}
    return found


def set_mean(metric: Any, reported: Any) -> bool:
    """Set a metric's state to what a run has reported of it; what has the same value already stays untouched.

    Returns:
        Whether the metric has the reported value now. Its state is as before if it is no mean after all.
    """
    import numpy as np

    if not isinstance(reported, Value) or reported.per_replica or len(reported.parts) != 1:
        return False
    value = reported.parts[0].numpy()
    before = metric.result().numpy()
    if value.shape != () or before.shape != ():
        return False
    if value == before:
        return True
    total = metric.total.numpy()
    count = getattr(metric, "count", None)
    metric.total.assign(np.asarray(value * (1 if count is None else count.numpy()), total.dtype))
    now = metric.result().numpy()
    if np.isclose(now, value, rtol=_ROUNDINGS * np.finfo(total.dtype).eps, atol=0.0, equal_nan=True):
        return True
    metric.total.assign(total)
    return False
