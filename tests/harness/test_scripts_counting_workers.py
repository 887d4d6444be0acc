"""Unmodified scripts that count the workers of their cluster: in their reference the count knows where it is used."""

from __future__ import annotations

from typing import Any

import pytest

from harness.evidence.stand_ins import WORKERS
from harness.subject.script import Script
from simulator import Cluster, Topology
from tests.harness._loop import Verified


def _counts() -> dict[str, Any]:
    """In a task: what a script gets that counts workers, each time as a batch and as a part of a sum."""
    import json

    import tensorflow as tf

    from harness.recording.scripts.device_counts import length
    from harness.recording.scripts.stand_ins import StandIns
    from harness.recording.scripts.worker_counts import counted_workers

    stand_ins = StandIns(Script(__file__, (), "/", strategy="multi_worker-3", workers=3))
    stand_ins.asked_by_script = lambda: True  # type: ignore[method-assign]
    config = json.dumps({"cluster": {"worker": ["a:1", "b:2", "c:3"], "ps": ["d:4"]}})
    with counted_workers(stand_ins, config):
        spec = tf.train.ClusterSpec(json.loads(config)["cluster"])
        counts = {
            "num_tasks": spec.num_tasks("worker"),
            "as_dict": length(spec.as_dict()["worker"]),
            "job_tasks": length(spec.job_tasks("worker")),
            "TF_CONFIG": length(json.loads(config)["cluster"]["worker"]),
        }
        others = [spec.num_tasks("ps"), len(spec.as_dict()["ps"]), json.loads('{"cluster": {}}')]
    found = {name: (4 * count, float(tf.constant(6.0) / count.divides(None))) for name, count in counts.items()}
    return {**found, "others": others, "noted": sorted({each.what for each in stand_ins.found})}


def test_workers_are_counted_like_replicas() -> None:
    """A size is the cluster's, and what is divided is a part of a sum; parameter servers are as many as there are."""
    with Cluster(Topology(), timeout=60) as cluster:
        found = cluster.run(_counts)["local:0"].value
    noted = [f"{WORKERS} divides a tensor", f"{WORKERS} multiplies"]
    ways = dict.fromkeys(("num_tasks", "as_dict", "job_tasks", "TF_CONFIG"), (12, 6.0))
    assert found == {**ways, "others": [1, 1, {"cluster": {}}], "noted": noted}


_LOOP = """
import json, os
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
workers = WORKERS
x = np.random.default_rng(0).normal(size=(64, 5)).astype("float32")
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(16))
with strategy.scope():
    w = tf.Variable(tf.zeros([5, 1]), name="w")
    rate = tf.Variable(0.1, trainable=False, name="rate")

def replica(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - 1.0) ** 2) / workers
    gradient = tape.gradient(loss, w)
    w.assign_sub(rate * tf.distribute.get_replica_context().all_reduce("SUM", gradient))

@tf.function
def step(batch):
    strategy.run(replica, args=(batch,))

seen = 0
for batch in data:
    step(batch)
    seen += len(strategy.experimental_local_results(batch)[0]) * workers
    rate.assign(0.1 * 0.5 ** (seen / 32))
"""
_OF_RESOLVER = 'strategy.cluster_resolver.cluster_spec().num_tasks("worker")'
_OF_CONFIG = 'len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])'


@pytest.mark.full
@pytest.mark.parametrize("workers", [_OF_RESOLVER, _OF_CONFIG], ids=["resolver", "config"])
@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (("", ""), "consistent"),
        (('"SUM"', '"MEAN"'), "inconsistent"),
        (("[0]) * workers", "[0])"), "inconsistent"),
    ],
    ids=["right", "divided twice", "examples of one worker"],
)
def test_what_is_divided_by_the_number_of_workers(
    workers: str, change: tuple[str, str], outcome: str, verified: Verified
) -> None:
    """Each worker's mean by their number, added up, is the mean; averaged it is too small by their number."""
    verdict = verified(_LOOP.replace("WORKERS", workers).replace(*change), "multi_worker-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    assert not verdict.conditions


_IN_REPLICA = """
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = np.random.default_rng(1).normal(size=(64, 3)).astype("float32")

def rows(context):
    mine = tf.data.Dataset.from_tensor_slices(x).shard(context.num_input_pipelines, context.input_pipeline_id)
    return mine.batch(context.get_per_replica_batch_size(16))

with strategy.scope():
    w = tf.Variable(tf.zeros([3]))

@tf.function
def step(x):
    def replica(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.linalg.matvec(x, w) - 1.0) ** 2) / WORKERS
        w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

    strategy.run(replica, args=(x,))

for batch in strategy.distribute_datasets_from_function(rows):
    step(batch)
"""


@pytest.mark.full
@pytest.mark.parametrize("workers", [_OF_RESOLVER, _OF_RESOLVER.replace("num_tasks", "job_tasks").join(["len(", ")"])])
def test_workers_are_counted_in_functions_that_replicas_run(workers: str, verified: Verified) -> None:
    """AutoGraph, which has converted them, calls for them what they call; one within another has a line of its own."""
    verdict = verified(_IN_REPLICA.replace("WORKERS", workers), "multi_worker-2", explain=False, prove=False)
    assert verdict.outcome == "consistent", str(verdict)
    assert f"in the reference {WORKERS} divides a tensor at train.py:19 is 1" in verdict.notes


_CLOSURES = """
import numpy as np
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
workers = resolver.cluster_spec().num_tasks("worker")
x = np.random.default_rng(0).normal(size=(32, 5)).astype("float32")
with strategy.scope():
    w = tf.Variable(tf.zeros([5, 1]), name="w")
    rate = tf.Variable(0.1, trainable=False, name="rate")

def replica(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - 1.0) ** 2)
    w.assign_sub(rate * tape.gradient(loss, w))

@tf.function
def step(x):
    strategy.run(replica, args=(x,))

decay = tf.function(lambda: rate.assign(0.9 * rate))
for epoch in range(2):
    for at in range(0, 32, 8):
        coordinator.schedule(step, args=(tf.constant(x[at : at + 8]),))
    coordinator.join()
    for _ in range(TIMES):
        coordinator.schedule(decay)
    coordinator.join()
print(f"{workers} workers")
"""


@pytest.mark.full
@pytest.mark.parametrize(("times", "codes"), [("1", []), ("workers", ["count_of_replicas"])])
def test_what_is_done_once_for_each_worker_of_a_coordinator_is_a_condition(
    times: str, codes: list[str], verified: Verified
) -> None:
    """With a single worker it would be done once, which is another training."""
    verdict = verified(_CLOSURES.replace("TIMES", times), "parameter_server-2w1p", explain=False, prove=False)
    assert verdict.outcome == "consistent", str(verdict)
    assert [each.code for each in verdict.conditions] == codes


@pytest.mark.full
@pytest.mark.parametrize(("wrong", "outcome"), [(False, "consistent"), (True, "abstained")])
def test_a_variable_that_changes_under_open_closures_is_not_judged(
    wrong: bool, outcome: str, verified: Verified
) -> None:
    """Nobody knows which of them see the new rate; one at a time they all do not."""
    script = _CLOSURES.replace("coordinator.schedule(decay)", "rate.assign(0.9 * rate)").replace("TIMES", "1")
    if wrong:
        script = script.replace("    coordinator.join()\n    for _", "    for _")
    verdict = verified(script, "parameter_server-2w1p", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    assert ("assigns what they use" in str(verdict.abstained)) == wrong


_OWN_PART = """
import json, os
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
config = json.loads(os.environ["TF_CONFIG"])
workers, index = len(config["cluster"]["worker"]), config["task"]["index"]
x = np.random.default_rng(0).normal(size=(48, 5)).astype("float32")
n = len(x) // workers
part = x[index * n : (index + 1) * n]
data = strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.from_tensor_slices(part).batch(6))
with strategy.scope():
    w = tf.Variable(tf.zeros([5, 1]), name="w")

def replica(x):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(tf.reduce_sum((x @ w - 1.0) ** 2, -1), global_batch_size=12)
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

@tf.function
def step(batch):
    strategy.run(replica, args=(batch,))

for batch in data:
    step(batch)
with open(f"log-{index}.json", "w") as log:
    json.dump({"workers": workers, "names": [f"worker {k}" for k in range(workers)]}, log)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("batch", "overlap", "outcome"),
    [
        ("12 // workers", False, "consistent"),
        ("12 // workers", True, "inconsistent"),
        ("6", False, "abstained"),
        ("6", True, "abstained"),
    ],
)
def test_a_part_of_the_examples_for_each_worker(batch: str, overlap: bool, outcome: str, verified: Verified) -> None:
    """One device has all of them, in one part; parts that overlap leave some of them out.

    Of batches that are as large on one device as on a worker, nobody knows whether the parts are all of the examples.
    """
    script = _OWN_PART.replace("batch(6)", f"batch({batch})")
    script = script.replace("x[index * n : (index + 1) * n]", "x[index * 12 : index * 12 + n]") if overlap else script
    verdict = verified(script, "multi_worker-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)


def _workers_in_closures(servers: int) -> list[tuple[float, str]]:
    """In a task: what the number of two workers is where a replica divides by it, or multiplies."""
    import tensorflow as tf

    from harness.recording.scripts.counts import ReplicaCount
    from harness.recording.scripts.stand_ins import StandIns

    stand_ins = StandIns(Script(__file__, (), "/", ps=servers))
    workers = ReplicaCount(2, stand_ins, WORKERS)
    found: list[tuple[float, str]] = []

    def replica() -> None:
        for used in (tf.constant(4.0) / float(workers), tf.constant(4.0) * tf.cast(workers, tf.float32)):
            found.append((float(used), stand_ins.found[-1].trust))

    tf.distribute.MirroredStrategy(["CPU:0"]).run(replica)
    return found


@pytest.mark.parametrize(
    ("servers", "found"),
    [(1, [(2.0, "sure"), (8.0, "sure")]), (0, [(4.0, "assumed"), (4.0, "assumed")])],
)
def test_a_coordinators_workers_are_as_many_in_its_closures(servers: int, found: list[tuple[float, str]]) -> None:
    """Each worker takes its turn in the reference, too, and nobody adds up what they have; elsewhere one has it all."""
    with Cluster(Topology(), timeout=60) as cluster:
        assert cluster.run(_workers_in_closures, servers)["local:0"].value == found
