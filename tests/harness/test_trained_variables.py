"""What is wrong of a script whatever its reference: copies of what it trains that are not the same."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from harness import verify
from harness.evidence.trace import Array, RunTrace, Seen, SeenVariable, Value
from harness.judging.trained_variables import trained_copies_agree
from tests.harness._traces import client

_SCRIPT = """
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = np.arange(48, dtype="float32").reshape(16, 3) / 24
with strategy.scope():
    w = tf.Variable(np.zeros((3, 1), "float32"), name="w")


@tf.function
def step(x, noise):
    def replica(x, noise):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ w - 1) ** 2) / 8
        gradient = tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w))
        w.assign_sub(0.05 * (gradient + noise))
        return loss

    return strategy.reduce("sum", strategy.run(replica, args=(x, noise)), axis=None)


random = np.random.default_rng(SEED)
for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8)):
    print(float(step(batch, tf.constant(random.normal(size=(3, 1)).astype("float32")))))
"""


def _run(*copies: float, gradient: tuple[int, ...] = (2,)) -> RunTrace:
    """Of each worker a step that has left so much in a variable of shape [2]."""
    clients = []
    for number, copy in enumerate(copies):
        variable = SeenVariable("w", "mirrored", (Array.of(np.full(2, copy, np.float32)),))
        gradients = (Value("gradients", (Array.of(np.zeros(gradient, np.float32)),), per_replica=True),)
        seen = (Seen(1, 1.0, variables=(variable,), gradients=gradients),)
        made = client(task=f"worker:{number}", clients=len(copies), replicas=len(copies))
        clients.append(msgspec.structs.replace(made, seen=seen))
    return RunTrace(tuple(clients))


def test_only_copies_of_what_has_a_gradient_have_to_agree() -> None:
    """A state of another shape may be each worker's own; equal copies are fine."""
    assert trained_copies_agree(_run(1.0, 2.0)).status == "broken"
    assert trained_copies_agree(_run(1.0, 1.0)).status == "held"
    assert trained_copies_agree(_run(1.0, 2.0, gradient=(3,))).status == "held"


@pytest.mark.full
@pytest.mark.parametrize(("seed", "code"), [("", "replicas_agree"), ("7", None)])
def test_noise_of_each_worker_is_found_although_one_device_cannot_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: str, code: str | None
) -> None:
    """One device would be given the noise of both, as rows of examples, and fails. With a seed the script is right."""
    (tmp_path / "train.py").write_text(_SCRIPT.replace("SEED", seed))
    monkeypatch.chdir(tmp_path)
    verdict = verify(["python", "train.py"], "multi_worker-2", prove=False)
    broken = [each.law for each in verdict.judgements if each.status == "broken"]
    assert broken == ([] if code is None else [code]), str(verdict)
    assert verdict.outcome == ("consistent" if code is None else "inconsistent"), str(verdict)
