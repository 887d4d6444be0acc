"""Rule: after the interruption the input began again at an earlier place than the restored variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from harness.evidence.trace import RunTrace
from harness.evidence.witness_values import for_coordinator
from harness.judging.explain._examples import listed
from harness.judging.explain._initial_state import restored
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._resumption import Resumption, resumption_of
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule

DATA_RESTARTED = "data_restarted"
_CURE = (
    "Put the iterator of a tf.data pipeline into the checkpoint, tf.train.Checkpoint(..., iterator=iterator), or, as a "
    "distributed iterator cannot be saved, save the step and begin with dataset.skip(step) before it is distributed. "
    "In fit, save at the end of epochs: a mid-epoch backup restores the variables and repeats the epoch's batches."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = resumption_of(view)
    if found is None or for_coordinator(view.case.run):  # whose workers begin their data anew, as TensorFlow has it
        return
    yield _on_restored(found)
    # Right values do not come from wrong examples, but where the reference was given them, too.
    if not (view.case.follows or view.wrong("variables", found.first) + view.wrong("loss", found.first)):
        return
    yield _same_ids(found)
    yield _ahead(found)


def _on_restored(found: Resumption) -> Attempt | None:
    """All steps were done again, on variables that the training did not begin with."""
    if found.first > found.begin or found.found.in_epochs or not (others := restored(found)):
        return None
    name, (ours, anew) = others[0][0].name, (each.value.numpy().reshape(-1) for each in others[0])
    at = int((ours != anew).argmax())
    where = f"{name!r}{f'[{at}]' if ours.size > 1 else ''}"
    return evident(
        DATA_RESTARTED,
        f"Killed after step {found.found.at_step}, the run has restored variables ({where} is {ours[at]:.6g}, and the "
        f"training began with {anew[at]:.6g}), and began with step 1 of its loop and its input: steps that these have "
        "were done again.",
    )


def _same_ids(found: Resumption) -> Attempt | None:
    """The resumed steps consumed what the reference's first ones did."""
    resumed, truth = _ids(found.view.case.run), _ids(found.found.reference)
    if found.found.in_epochs or not resumed or not truth:
        return None
    pairs = [*zip(resumed.values(), truth.values(), strict=False)]
    step, seen = next(iter(resumed.items()))
    if seen == truth.get(step) or any(ours != theirs for ours, theirs in pairs):
        return None
    many = f"all {len(pairs)} resumed steps repeat the reference's first {len(pairs)}"
    instead = f", and not {listed(truth[step])}" if step in truth else ""
    return evident(
        DATA_RESTARTED,
        f"{found.where} with its input at the beginning: step {step} consumed {listed(seen)}, as the reference's step "
        f"1 does{instead}; {many}.",
    )


def _ids(run: RunTrace) -> dict[int, Counter[int]]:
    """The examples consumed in each step, in order; empty unless every client recorded them in every step."""
    found: dict[int, Counter[int]] = {}
    for client in run.clients:
        for step in client.steps:
            if step.examples is None:
                return {}
            ids = (key for replica in step.examples for key in replica)
            found.setdefault(step.index, Counter()).update(ids)
    return found


def _ahead(found: Resumption) -> Attempt | None:
    """The counter shows that the restored variables were further than the steps that were done next."""
    counter = found.counter
    if counter is None:
        return None
    name, observed, expected, _ = counter
    if observed <= expected:
        return None
    return evident(
        DATA_RESTARTED,
        f"{found.where} as its number of steps says, but {name!r} counts {observed} after the first resumed step, "
        f"expected {expected}: the variables were restored from {observed - expected} updates later, and the input and "
        f"the loop began before them, so that as many updates were done again without being undone.",
    )


RULES: tuple[Rule, ...] = (Predicting(DATA_RESTARTED, 2, _attempts, cure=_CURE),)
