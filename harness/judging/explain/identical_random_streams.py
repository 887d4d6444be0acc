"""Rule: every replica drew the same random numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule

_ID = "identical_random_streams"
_STATE = re.compile(r"seed_generator_state|random_generator|StateVar|rng_state", re.IGNORECASE)
_ZEROS_MIN = 4
"""Dropped elements from which on a common pattern is no coincidence: with two replicas and a rate of one half, 1 in "
"16."""
_CURE = (
    "Make the seed depend on the example (its id) so that the mask is the same under every strategy, or at least on "
    "the replica: tf.distribute.get_replica_context().replica_id_in_sync_group added to a stateless seed, or a "
    "tf.random.Generator created inside strategy.scope(), which gives each replica a stream of its own."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    step = view.origin("loss") or view.origin("gradients")
    if view.replicas > 1 and step is not None and _different_examples(view, step):
        yield _same_draws(view)
        yield _same_zeros(view)


def _evidence(view: CaseView) -> Iterable[Attempt | None]:
    step = view.origin("loss") or view.origin("gradients")
    if view.replicas > 1 and step is not None and _different_examples(view, step):
        yield _same_state(view, step)


def _different_examples(view: CaseView, step: int) -> bool:
    """Whether no two replicas read the same examples, as far as is known: then equal results come from equal "
    "numbers.
    """
    shards = view.shards(step)
    return shards is None or len(set(shards)) == len(shards)


def _same_draws(view: CaseView) -> Attempt | None:
    """A metric that changes from step to step and is the same on every replica, bit for bit, is what was drawn."""
    import numpy as np

    for name in {name for step in view.steps("metrics") for name in view.wrong("metrics", step)}:
        found = [view.parts("metrics", step, name) for step in view.steps("metrics")]
        drawn = [parts for parts in found if parts is not None]
        if len(drawn) < 2 or any(not np.array_equal(part, parts[0]) for parts in drawn for part in parts):
            continue
        truth = [view.truth("metrics", step, name) for step in view.steps("metrics")]
        whole = all(
            of[0].shape == value.shape and np.allclose(of[0], value) for of, value in zip(drawn, truth, strict=False)
        )
        if whole or all(np.array_equal(parts[0], drawn[0][0]) for parts in drawn):
            continue  # a copy of a global value, or a constant
        return evident(
            _ID,
            f"What every replica recorded as {name!r} is the same on all {view.replicas} replicas at each of "
            f"{len(drawn)} steps, bit for bit, though it changes from step to step and the examples differ: the "
            f"replicas drew the same random numbers.",
        )
    return None


def _same_zeros(view: CaseView) -> Attempt | None:
    """Gradients that are zero in the same places on every replica, where the reference's is not: one mask for all."""
    import numpy as np

    common = apart = 0
    for step in view.steps("gradients"):
        for name in view.names("gradients", step) if step <= view.horizon else ():
            parts = view.parts("gradients", step, name)
            if (
                parts is None
                or len(parts) != view.replicas
                or parts[0].shape != view.truth("gradients", step, name).shape
            ):
                continue
            zero = np.array(parts) == 0
            alive = view.truth("gradients", step, name) != 0
            common += int((zero.all(axis=0) & alive).sum())
            apart += int((zero.any(axis=0) & ~zero.all(axis=0)).sum())
    if common < _ZEROS_MIN or apart:
        return None
    return evident(
        _ID,
        f"{common} elements of the gradients are exactly zero on all {view.replicas} replicas where the reference's "
        f"are not, and none is zero on some replicas only: one mask was drawn for all of them, whatever their "
        f"examples.",
    )


def _same_state(view: CaseView, step: int) -> Attempt | None:
    """A random generator's state has the same value in every copy, and nothing that came before the step is wrong."""
    import numpy as np

    for name in view.names("variables", step):
        copies = view.copies(step, name)
        if not _STATE.search(name) or len(copies) < view.replicas:
            continue
        if name in view.wrong("variables", step) or any(not np.array_equal(copy, copies[0]) for copy in copies):
            continue
        if not _is_drawn_from(view, name):
            continue
        return evident(
            _ID,
            f"The state of the random generator, {name!r}, is the same in all {len(copies)} copies after step {step} "
            f"and the same as the reference's, so each replica drew the numbers that the reference drew for the first "
            f"part of its batch, while the loss differs from that step on. This is evidence, not proof: the draws "
            f"themselves were not recorded.",
        )
    return None


def _is_drawn_from(view: CaseView, name: str) -> bool:
    """Whether a generator's state changes over the steps: a layer that could draw, and does not, has one too."""
    import numpy as np

    states = [view.copies(step, name)[:1] for step in view.steps("variables") if name in view.names("variables", step)]
    return any(not np.array_equal(each, states[0]) for each in states)


RULES: tuple[Rule, ...] = (Predicting(_ID, 46, _attempts, _evidence, cure=_CURE),)
