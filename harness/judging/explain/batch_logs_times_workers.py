"""Rule: what tf_keras logs of a batch is too large by the number of workers, and training is right."""

from __future__ import annotations

from harness.judging.explain._scaling import Scaling
from harness.judging.explain.protocol import Case, Rule

BATCH_LOGS = "batch_logs_times_workers"
_CURE = (
    "tf_keras adds up over the workers what each has of all of them already, before it gives the logs of a batch to "
    "callbacks; weights, and the logs of an epoch, are right. Set model.distribute_reduction_method = 'first' before "
    "fit if a callback uses them."
)


def _workers(case: Case) -> int | None:
    """The number of client processes, of several that report what a callback of tf_keras was given."""
    steps = case.run.clients[0].steps
    count = case.run.header.clients
    return count if count > 1 and steps and all(step.logged == "tf_keras" for step in steps) else None


RULES: tuple[Rule, ...] = (Scaling(BATCH_LOGS, 49, _workers, divides=False, unit="workers", cure=_CURE),)
