"""A consistent verdict that has compared too little of a training is none."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import numpy as np
import pytest

from harness import verify
from harness.evidence.counters import Counters
from harness.evidence.trace import Array, RunTrace, Seen, SeenVariable, Start
from harness.judging.conditions import OWN, Condition
from harness.judging.laws.protocol import Judgement
from harness.judging.sufficiency import too_little, trains_aside
from harness.judging.verdict import Verdict
from tests.harness._traces import client

_PROGRAM = """
import numpy as np
import tensorflow as tf

def train(strategy, record):
    replicas = strategy.num_replicas_in_sync
    x = np.random.default_rng(0).normal(size=(24, 3)).astype("float32")
    with strategy.scope():
        w = tf.Variable(tf.zeros([3]))
        more = [tf.Variable(tf.zeros([3]), trainable=False) for _ in range(MORE)]
        rounded = tf.Variable(tf.ones([3], tf.bfloat16), name="rounded")
    data = tf.data.Dataset.from_tensor_slices(x).batch(8)

    @tf.function
    def step(rows):
        def one(rows):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((tf.linalg.matvec(rows, w) - 1.0) ** 2) / 8.0
            gradient = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w))
            w.assign_sub(0.01 * gradient * WRONG)
            rounded.assign(tf.cast(tf.cast(rounded, tf.float32) - 0.0015 * ROUNDED, tf.bfloat16))
            return loss

        return strategy.reduce("SUM", strategy.run(one, args=(rows,)), axis=None)

    for rows in strategy.experimental_distribute_dataset(data):
        record.step(loss=step(rows))
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("more", "wrong", "rounded", "outcome", "why"),
    [
        ("1", "1", "1", "consistent", None),
        ("2 // replicas", "replicas", "1", "abstained", "one device has no variable of that name to compare it with"),
        ("1", "1", "replicas", "abstained", "what steps add to 1 of 2 variables that change is not judged"),
    ],
)
def test_a_training_of_which_nothing_is_compared_but_its_loss_is_not_judged(
    more: str, wrong: str, rounded: str, outcome: str, why: str | None, tmp_path: Path
) -> None:
    """One device makes more variables that have no names; or it does not change one, since it changes by too little."""
    text = _PROGRAM.replace("MORE", more).replace("WRONG", wrong).replace("ROUNDED", rounded)
    file = tmp_path / "train.py"
    file.write_text(text)
    verdict = verify(f"{file}:train", "mirrored-2", explain=False)
    assert verdict.outcome == outcome, str(verdict)
    assert (why or "") in str(verdict.why_abstained)


def _seen(index: int, apart: str | None = None) -> Seen:
    return Seen(index, 0.0, variables=(), apart=apart)


def _trace(*seen: Seen, variables: bool = True) -> RunTrace:
    begun = (SeenVariable("w", "mirrored", (Array.of(np.zeros(3)),)),) if variables else ()
    return RunTrace((msgspec.structs.replace(client(), seen=seen, start=Start(0.0, begun)),))


_JUDGED = Judgement("variables_match_reference", "held")
_NOT = Judgement("variables_match_reference", "not_judged", "nobody recorded any")


@pytest.mark.parametrize(
    ("law", "variables", "apart", "why"),
    [
        (_JUDGED, True, 0, None),
        (_NOT, True, 0, "steps train, and no variable was held against one device (nobody recorded any)"),
        (_NOT, False, 0, None),  # nothing is trained
        (_JUDGED, True, 2, None),
        (_JUDGED, True, 3, "3 of 4 steps cannot be judged by one replica: drawn"),
    ],
)
def test_what_is_too_little(law: Judgement, variables: bool, apart: int, why: str | None) -> None:
    """No variable of a training, or less than half of its steps, unless a second process has settled these."""
    run = _trace(*map(_seen, range(1, 5)), variables=variables)
    reference = _trace(*(_seen(index, "drawn" if index <= apart else None) for index in range(1, 5)))
    verdict = Verdict("train", "mirrored-2", (law,))
    assert (too_little(verdict, run, reference) or "").startswith(why or "")
    assert (too_little(verdict, run, reference) is None) == (why is None)
    if apart:
        (of_run,) = run.clients
        single = msgspec.structs.replace(of_run, header=msgspec.structs.replace(of_run.header, are_single=True))
        assert too_little(verdict, RunTrace((single,)), reference) is None
    settled = dataclasses.replace(verdict, conditions=(Condition(OWN, "its own draws"),))
    assert (too_little(settled, run, reference) is None) == (why is None or apart > 0)


@pytest.mark.parametrize(("law", "aside", "told"), [(_NOT, True, True), (_NOT, False, False), (_JUDGED, True, False)])
def test_a_training_that_is_not_seen_needs_variables(law: Judgement, aside: bool, told: bool) -> None:
    """Where the program takes gradients in a thread of its own."""
    (of_run,) = _trace(variables=False).clients
    run = RunTrace((msgspec.structs.replace(of_run, counters=Counters(trains_aside=aside)),))
    assert (trains_aside(Verdict("train", "mirrored-2", (law,)), run) is not None) is told


@pytest.mark.full
@pytest.mark.parametrize("reported", ["variables={'w': w}", "loss=loss"])
def test_a_training_in_a_thread_is_judged_by_what_it_reports(reported: str, tmp_path: Path) -> None:
    """Its steps are not seen: of losses and ids of examples alone nothing tells that updates are right."""
    text = _PROGRAM.replace("MORE", "1").replace("WRONG", "replicas").replace("ROUNDED", "1")
    loop = "    for rows in strategy.experimental_distribute_dataset(data):\n        record.step(loss=step(rows))\n"
    assert text.endswith(loop)
    text = (
        text.removesuffix(loop)
        + f"""
    def train_all():
        for rows in strategy.experimental_distribute_dataset(data.take(1)):
            loss = step(rows)
            record.step({reported})

    import threading
    thread = threading.Thread(target=train_all)
    thread.start()
    thread.join()
"""
    )
    file = tmp_path / "train.py"
    file.write_text(text)
    verdict = verify(f"{file}:train", "mirrored-2", explain=False)
    assert verdict.outcome == ("inconsistent" if "variables" in reported else "abstained"), str(verdict)
    assert verdict.why_abstained is None or "in a thread of its own" in verdict.why_abstained
