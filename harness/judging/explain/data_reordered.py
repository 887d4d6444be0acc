"""Rule: after the interruption the input went on in another order than the uninterrupted run's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.evidence.witness_values import for_coordinator
from harness.judging.explain._examples import listed
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._resumption import resumption_of
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule
from harness.ledger import Ledger

_ID = "data_reordered"
_CURE = (
    "Usual causes: shuffle() with a seed but reshuffle_each_iteration, or without a seed, before dataset.skip(step): "
    "the process that was started again draws another order than the one that was killed; a seed that follows from the "
    "time, the process, or the number of epochs since the start. Put the iterator of a tf.data pipeline into the "
    "checkpoint, or draw the order from a seed and the number of the epoch, which is saved."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = resumption_of(view)
    if found is None or found.found.in_epochs or for_coordinator(view.case.run):  # as of `data_restarted`
        return
    if not (view.case.follows or view.wrong("variables", found.first) + view.wrong("loss", found.first)):
        return  # right values do not come from wrong examples, unless the reference was given these
    run, whole = Ledger.of(view.case.run), Ledger.of(found.found.reference)
    if run.silent or not len(run) or not len(whole) or not set(run.counts()) <= set(whole.counts()):
        return
    steps = {step: _ids(run, step) for step in run.reached}
    truth = {step: _ids(whole, step) for step in whole.reached}
    other = [step for step in steps if steps[step] != truth.get(step)]
    sized = all(sum(steps[step].values()) == sum(truth.get(step, {}).values()) for step in steps)
    if found.first not in other or not sized or _moved([*steps.values()], [*truth.values()]):
        return
    expected = sum((truth[step] for step in steps), Counter[int]())
    surplus, missing = run.counts() - expected, expected - run.counts()
    told = "each was consumed as often as by the reference"
    if surplus:
        told = f"{listed(surplus)} came too often, and {listed(missing)} too seldom or never"
    yield evident(
        _ID,
        f"{found.where} with its input in another order: in {len(other)} of {len(steps)} resumed steps the examples "
        f"are not the reference's, though as many; over all of them {told}.",
    )


def _moved(steps: Sequence[Counter[int]], truth: Sequence[Counter[int]]) -> bool:
    """Whether these are consecutive steps of the reference, only others: then it is the place that is wrong."""
    return any(steps == truth[k : k + len(steps)] for k in range(len(truth) - len(steps) + 1))


def _ids(ledger: Ledger, step: int) -> Counter[int]:
    return ledger.where(step=step).counts()


RULES: tuple[Rule, ...] = (Predicting(_ID, 3, _attempts, cure=_CURE),)
