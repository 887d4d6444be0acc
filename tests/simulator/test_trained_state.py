"""What a program trains, at its first gradient and at each save: equal digests of equal values, wherever they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from simulator import Cluster, Topology
from simulator.results import Incarnation

LOOP = """
import sys
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    w, large = tf.Variable([1.0, 2.0]), tf.Variable(tf.zeros([1 << 15]))
checkpoint = tf.train.Checkpoint(w=w, large=large)
if sys.argv[2] == "restore":
    checkpoint.restore(f"{sys.argv[1]}/1-1")

def replica_step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((w - 3.0) ** 2) + tf.reduce_sum(large)
    for variable, gradient in zip([w, large], tape.gradient(loss, [w, large])):
        variable.assign_sub(0.1 * gradient)

step = tf.function(lambda: strategy.run(replica_step)) if sys.argv[2] != "eager" else lambda: strategy.run(replica_step)
for number in range(1, 4):
    step()
    checkpoint.save(f"{sys.argv[1]}/{number}")
"""

FIT = """
import sys
import {keras} as keras
import numpy as np

model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
model.compile("sgd", "mse")
if sys.argv[2] == "restore":
    model.load_weights(f"{{sys.argv[1]}}/1.weights.h5")
saves = keras.callbacks.LambdaCallback(
    on_epoch_end=lambda epoch, logs: model.save_weights(f"{{sys.argv[1]}}/{{epoch + 1}}.weights.h5")
)
model.fit(np.ones((4, 2)), np.zeros(4), epochs=3, verbose=0, callbacks=[saves])
"""


def _run(program: str, tmp_path: Path, how: str) -> Incarnation:
    (tmp_path / how).mkdir(exist_ok=True)
    (tmp_path / "program.py").write_text(program)
    with Cluster(Topology(devices="cpu:2"), preload=(), timeout=90) as cluster:
        result = cluster.run_command([sys.executable, str(tmp_path / "program.py"), str(tmp_path / how), how])
    (found,) = result["local:0"].incarnations
    return found


def _states(process: Incarnation) -> list[int | None]:
    return [save.state for save in process.saves if not save.restores]


@pytest.mark.parametrize(
    "program",
    [
        LOOP,
        pytest.param(FIT.format(keras="keras"), marks=pytest.mark.full, id="keras"),
        pytest.param(FIT.format(keras="tf_keras"), marks=pytest.mark.full, id="tf_keras"),
    ],
)
def test_a_process_that_goes_on_begins_with_what_was_saved(program: str, tmp_path: Path) -> None:
    """And one that does not with what the first one began with; each step makes something else of it."""
    first = _run(program, tmp_path, "traced")
    known = [first.begins_with, *_states(first)]
    assert None not in known
    assert len(set(known)) == 4
    (tmp_path / "traced").rename(tmp_path / "restore")
    again = _run(program, tmp_path, "restore")
    assert [again.begins_with, *_states(again)[:2]] == known[1:]
    assert _run(program, tmp_path, "anew").begins_with == first.begins_with


def test_replicas_that_run_eagerly_begin_once(tmp_path: Path) -> None:
    """In a thread of each."""
    eager = _run(LOOP, tmp_path, "eager")
    traced = _run(LOOP, tmp_path, "traced")
    assert (eager.begins_with, _states(eager)) == (traced.begins_with, _states(traced))
