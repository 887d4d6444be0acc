"""Rule: training took more or fewer steps than the reference, and all steps that both took are right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.evidence.observed import epoch_ends, per_epoch
from harness.judging.explain._examples import shard_tail
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.wording import first_ones, joined
from harness.ledger import aligned

_ID = "other_number_of_steps"
_EXAMPLES = "examples"
_SHOWN_MAX = 8
_CURE = (
    "Usual causes: an early stop was decided from one replica's or one worker's own loss or metric; steps_per_epoch or "
    "the number of epochs came from the size of a shard, of a local batch or of strategy.num_replicas_in_sync; a loop "
    "counts from another number; a batch was dropped, or repeat() goes on, at the end of the data. Decide from what "
    "was reduced, strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None), in the same way on every "
    "worker, and take -(-examples // global_batch) steps for each epoch, whatever the strategy."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    case = view.case
    if case.interruption is not None:
        return  # resumed steps are aligned by their end, so that a number of them says where it resumed
    epochs = per_epoch(case.run, case.reference)
    expected = epoch_ends(case.reference) if epochs else [step.index for step in case.reference.clients[0].steps]
    # A step that only some clients have taken is none of the training's.
    taken = [step for step, found in view.moments.items() if step is not None and None not in found.records]
    common = sorted(set(taken) & set(expected))
    if not common or set(taken) == set(expected) or any(view.drifted(step) for step in common):
        return
    agreeing = _agreeing(view, common)
    if not agreeing or shard_tail(case):
        return
    unit = "epochs" if epochs else "steps"
    differ = [
        f"{_listed(sorted(only), 'epoch ending with step' if epochs else 'step')} only {who} took"
        for who, only in (("the run", set(taken) - set(expected)), ("the reference", set(expected) - set(taken)))
        if only
    ]
    divided = ", and how examples are divided among replicas," if _EXAMPLES in agreeing else ""
    yield evident(
        _ID,
        f"The run took {len(taken)} {unit}, the reference {len(expected)}: {' and '.join(differ)}. At all "
        f"{len(common)} that both took, {joined(agreeing)} agree: these steps{divided} are right, and whatever else "
        f"differs follows from where training ended.",
    )


def _agreeing(view: CaseView, common: Sequence[int]) -> list[str]:
    """The observables that both recorded at these steps; empty if one of them differs anywhere."""
    found = []
    for what in ("loss", "gradients", "variables", "metrics"):
        steps = [step for step in view.steps(what) if step in common]
        if any(view.wrong(what, step) for step in steps):
            return []
        if any(view.names(what, step) for step in steps):
            found.append(what)
    both = aligned(view.case.run, view.case.reference)
    if both.asynchronous or not len(both.run) or not len(both.reference):
        return found
    return [] if set(both.by_step.groups()) & set(common) else [*found, _EXAMPLES]


def _listed(steps: Sequence[int], what: str) -> str:
    first = what.replace("epoch", "epochs", 1).replace("step", "steps") if len(steps) > 1 else what
    return f"{first} {first_ones(steps, _SHOWN_MAX)}"


RULES: tuple[Rule, ...] = (Predicting(_ID, 4, _attempts, cure=_CURE),)
