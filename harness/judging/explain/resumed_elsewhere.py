"""Rule: after the interruption the run did other steps than those that were left, or not the same on all workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.evidence.observed import epoch_ends, history
from harness.evidence.trace import ClientTrace, RunTrace
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.interruption import Interruption
from harness.judging.wording import joined

ELSEWHERE = "resumed_elsewhere"
_Ids = list[Counter[int]]
_CURE_APART = (
    "Let all workers go on from one save: the chief's, which counts once it is whole, or the newest that every worker "
    "has. A job can die between the saves of two workers."
)
_CURE_SKIPPED = (
    "Save how far the epoch is with what is trained, and do its rest first: the number of the next epoch alone says "
    "nothing of the batches that are left in this one."
)
_CURE_ENDED = (
    "What decides the end was not saved with the rest: the patience and the best value of an early stop, or a count of "
    "steps or epochs. Save it in a variable of the checkpoint, and restore it before the first step."
)
# Losses of so many steps have to be those of others before it is said that these are the steps.
_ALIKE_MIN = 2


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = view.case.interruption
    if found is None or found.in_epochs:
        return
    truth = _all_ids(found.reference)
    yield _apart(view, found, truth)
    yield _skipped(view.case.run, found, truth)
    yield _ended(view.case.run, found, truth)


def _apart(view: CaseView, found: Interruption, truth: _Ids) -> Attempt | None:
    """Each worker's examples, or the variables it began with, are those of another step."""
    clients = view.case.run.clients
    places = [_places(_ids(client), truth) for client in clients]
    what = "has the examples of"
    if not _differ(places):
        places, what = _begun(view, found), "has begun with the variables before"
    if not _differ(places):
        return None
    begun = [max((place for place in each if place <= found.at_step), default=min(each)) for each in places]
    if 0 in begun:
        return None  # that one has restored nothing, of which other rules know more
    said = [f"{each.header.task} {what} step {place + 1}" for each, place in zip(clients, begun, strict=True)]
    text = f"Killed after step {found.at_step}, the job went on at different steps on its workers: {joined(said)}."
    return evident(ELSEWHERE, text, cure=_CURE_APART)


def _differ(places: Sequence[set[int]]) -> bool:
    """Whether each of several workers is somewhere, and not all at the same place."""
    return len(places) > 1 and all(places) and not set.intersection(*places)


def _begun(view: CaseView, found: Interruption) -> list[set[int]]:
    """For each worker, after which steps the reference has the variables that it began with; empty for none."""
    import numpy as np

    variables = history(found.reference, "variables")
    steps = [step for step in variables if step is not None]
    places: list[set[int]] = [set(steps) for _ in view.case.run.clients]
    for name, values in view.begun_apart.items():
        known = {step: variables[step][name].array for step in steps if name in variables[step]}
        for place, value in zip(places, values, strict=True):
            place &= {step for step, array in known.items() if np.allclose(value, array, rtol=1e-5, atol=0.0)}
    return places if view.begun_apart else []


def _skipped(run: RunTrace, found: Interruption, truth: _Ids) -> Attempt | None:
    """Steps were never done, and what the run did then is what comes after them."""
    first, last = found.at_step + 1, found.begins_after
    ours = _all_ids(run)
    if last < first or (found.recorded and last not in _places(ours, truth)):
        return None
    these = f"steps {first} to {last} were" if last > first else f"step {last} was"
    went = f"went on with step {last + 1}" if found.recorded else "took all steps for done"
    ends = f" Step {last} is the last of its epoch." if last in epoch_ends(found.reference) else ""
    text = f"Killed after step {found.at_step} and started again, the run {went}: {these} never done.{ends}"
    return evident(ELSEWHERE, text, cure=_CURE_SKIPPED)


def _ended(run: RunTrace, found: Interruption, truth: _Ids) -> Attempt | None:
    """The losses are those of the steps that were left, and then there are more, or fewer."""
    ours, theirs = (_losses(trace) for trace in (run, found.reference))
    by_ids = _places(_all_ids(run), truth) if truth else set(range(found.at_step + 1))
    places = [
        place
        for place in range(1, found.at_step + 1)
        if place in by_ids and min(len(ours), len(theirs) - place) >= _ALIKE_MIN and _alike(ours, theirs[place:])
    ]
    if len(places) != 1 or places[0] == found.begins_after:
        return None
    more = places[0] + len(ours) - len(theirs)
    how = f"did {more} more than the reference" if more > 0 else f"ended {-more} before the reference"
    text = (
        f"Killed after step {found.at_step} and started again, the run went on with step {places[0] + 1} as it should, "
        f"and {how}, which ends with step {len(theirs)}."
    )
    return evident(ELSEWHERE, text, cure=_CURE_ENDED)


def _alike(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    import numpy as np

    many = min(len(ours), len(theirs))
    return bool(np.allclose(ours[:many], theirs[:many], rtol=1e-5, atol=0.0)) and len(set(theirs[:many])) > 1


def _losses(run: RunTrace) -> list[float]:
    """Of every step in order; empty unless each step has one."""
    losses = history(run, "loss")
    found = [losses[step]["loss"].array for step in sorted(step for step in losses if step is not None)]
    return [loss.item() for loss in found] if all(loss.size == 1 for loss in found) else []


def _ids(client: ClientTrace) -> _Ids:
    """The examples of each step of a client; empty unless it has reported them, and has some."""
    found = [Counter(key for replica in step.examples or () for key in replica) for step in client.steps]
    return found if any(found) and all(step.examples is not None for step in client.steps) else []


def _all_ids(run: RunTrace) -> _Ids:
    """The same of all clients together."""
    each = [_ids(client) for client in run.clients]
    if not all(each) or len({len(ids) for ids in each}) != 1:
        return []
    return [sum(of_step, Counter[int]()) for of_step in zip(*each, strict=True)]


def _places(ours: _Ids, truth: _Ids) -> set[int]:
    """After how many of the reference's steps these come, as far as they are among its own; empty for none."""
    return {
        place
        for place in range(len(truth))
        if ours and all(mine <= theirs for mine, theirs in zip(ours, truth[place:], strict=False))
    }


RULES: tuple[Rule, ...] = (Predicting(ELSEWHERE, 0, _attempts),)
