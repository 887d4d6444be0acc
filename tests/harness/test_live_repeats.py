"""Batches that a replica is given again too soon, by digests of what it is given at each step."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest

from harness.evidence.deposit import DepositJob, opened, trainings
from harness.evidence.digests import EXAMPLES, Digest, DigestWriter
from harness.evidence.trace import Header
from harness.live.repeats import repeats, shared
from simulator import Cluster, Topology


def _given(deposit: Path, *replicas: Sequence[int]) -> None:
    """Two replicas of one process, or as many workers."""
    header = Header("local:0", 0, "mirrored-2", 2, len(replicas), 1, 0)
    writer = DigestWriter(opened(deposit, DepositJob(header, "", (), "/", "", {})), EXAMPLES)
    for step, digests in enumerate(zip(*replicas, strict=True), 1):
        writer.write(Digest(step, 0, digests, ()))
    writer.flush()


def _found(deposit: Path, *replicas: Sequence[int]) -> list[tuple[int, str | None]]:
    _given(deposit, *replicas)
    (training,) = trainings(deposit)
    return [(step, finding.replica) for step, finding in repeats(training)]


def _epochs(batches: int, steps: int) -> list[int]:
    return [number % batches for number in range(steps)]


def _again(given: Sequence[int], step: int) -> list[int]:
    """With the batch before this step once more."""
    return [*given[: step - 1], given[step - 2], *given[step - 1 :]]


_ONCE = list(range(60))
_SHUFFLED = list(itertools.chain(*(random.Random(epoch).sample(range(30), 30) for epoch in range(4))))
_TWICE = [number // 2 for number in range(60)]


@pytest.mark.parametrize(
    ("given", "step"),
    [
        (_again(_epochs(8, 60), 22), 22),
        (_again(_epochs(8, 60), 3), 3),
        (_again(_ONCE, 41), 41),
        ([*_epochs(30, 100), *_epochs(30, 60)], 101),  # a pipeline that begins anew within an epoch
    ],
)
def test_a_batch_that_comes_too_soon_is_found(tmp_path: Path, given: list[int], step: int) -> None:
    """Where others come again after an epoch, or never; if both replicas have it, it is no replica's."""
    other = [1000 + each for each in given]
    assert _found(tmp_path / "both", given, other) == [(step, None)]
    right = [1000 + number for number in range(len(given))]
    assert _found(tmp_path / "one", right, given) == [(step, "local:0 replica 1")]


@pytest.mark.parametrize(
    "given",
    [
        _ONCE,
        _epochs(8, 60),
        _epochs(1, 60),
        _epochs(40, 41),  # the second epoch has just begun
        _epochs(40, 45),
        _SHUFFLED,
        _SHUFFLED[:50],
        _TWICE,  # each batch is trained twice
        [*([700, 701] * 5), *_epochs(20, 80)],  # a few examples first
        [0, *_epochs(30, 100)],  # the first one builds a model
        [_ONCE[0], _ONCE[0], *_ONCE],
        [*_epochs(30, 75), *_epochs(30, 5)][:12],  # too few to say
    ],
)
def test_what_a_program_means_is_no_finding(tmp_path: Path, given: list[int]) -> None:
    """Epochs in one order or in others, batches that never come again, and those that come twice in a row."""
    assert _found(tmp_path, given, given) == []


def test_no_shuffling_of_batches_is_accused(tmp_path: Path) -> None:
    """At whatever step somebody looks, of 200 trainings: then a batch may come again soon, as the next epoch begins."""
    for seed in range(200):
        drawn = random.Random(seed)
        size = drawn.randrange(4, 60)
        given = list(itertools.chain(*(drawn.sample(range(size), size) for _ in range(6))))
        cut = drawn.randrange(1, len(given))
        assert _found(tmp_path / str(seed), given[:cut]) == [], (seed, size, cut)


def _digests() -> dict[str, int]:
    import numpy as np
    import tensorflow as tf

    from harness.recording.steps.digest_operations import digest_of_examples

    rows = np.random.default_rng(1).normal(size=(64, 2000)).astype("float32")
    words = np.array([[b"a", b"bc"]] * 4)
    given = {
        "rows": [rows],
        "another row": [np.where(np.arange(64)[:, None] == 9, np.nextafter(rows, np.float32(9)), rows)],
        "others": [rows + 1],
        "labels": [np.array([1, 2, 5])],
        "other labels": [np.array([1, 3, 4])],
        "in the other place": [words, np.array([1, 2])],
        "here": [np.array([1, 2]), words],
        "half": [rows.astype("float16")],
        "flags": [rows > 0],
        "complex": [rows.astype("complex64")],
    }
    return {name: int(tf.function(digest_of_examples)(list(map(tf.constant, each)))) for name, each in given.items()}


def test_a_digest_tells_examples_apart() -> None:
    """Of any dtype, whatever sums they have."""
    with Cluster(Topology(), timeout=60) as cluster:
        found = cluster.run(_digests)["local:0"].value
    assert len(set(found.values())) == len(found)


def _watched(folder: str) -> tuple[int, int]:
    import tensorflow as tf

    from harness.recording.deposit import EvidenceDeposit
    from harness.recording.steps import step_samples

    def fails(tensors: Sequence[object]) -> object:
        raise TypeError("no digest of these")

    depositing = EvidenceDeposit(1, Path(folder), 1 << 20)
    with mock.patch.object(step_samples, "digest_of_examples", fails), depositing.active():
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            w = tf.Variable(1.0)

        @tf.function
        def step(rows: object) -> None:
            def replica(rows: object) -> None:
                with tf.GradientTape() as tape:
                    loss = w * tf.reduce_sum(rows)
                w.assign_sub(tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

            strategy.run(replica, args=(rows,))

        for rows in strategy.experimental_distribute_dataset(
            tf.data.Dataset.from_tensor_slices(tf.ones([8, 2])).batch(4)
        ):
            step(rows)
    depositing.end()
    return int(w.numpy()), len(list(Path(folder).rglob("*.step")))


def test_a_training_goes_on_where_no_digest_can_be_made(tmp_path: Path) -> None:
    """It is watched all the same."""
    with Cluster(Topology(devices="cpu:2"), timeout=60) as cluster:
        assert cluster.run(_watched, str(tmp_path))["local:0"].value == (-15, 2)


def _shared(deposit: Path, *replicas: Sequence[int]) -> list[tuple[int, str]]:
    _given(deposit, *replicas)
    (training,) = trainings(deposit)
    return [(step, finding.text) for step, finding in shared(training)]


def test_replicas_that_are_given_the_same_are_found(tmp_path: Path) -> None:
    """From where on, and until when."""
    other = [1000 + each for each in _ONCE]
    text = "local:0 replica 0 and local:0 replica 1 are given the same examples"
    assert _shared(tmp_path / "all", _ONCE, _ONCE) == [(1, text)]
    assert _shared(tmp_path / "late", _ONCE, [*other[:40], *_ONCE[40:]]) == [(41, text)]
    mixed = [*other[:20], *_ONCE[20:30], *other[30:]]
    assert _shared(tmp_path / "between", _ONCE, mixed) == [(21, f"{text}, until step 30")]


def test_the_same_examples_by_accident_are_no_finding(tmp_path: Path) -> None:
    """A batch here and there; few examples, so that batches are soon alike; and all of the data in each step."""
    other = [1000 + each for each in _ONCE]
    assert not _shared(tmp_path / "one", _ONCE, [*other[:10], *_ONCE[10:15], *other[15:]])
    assert not _shared(tmp_path / "few", [step % 4 for step in _ONCE], [step % 4 for step in _ONCE])
    assert not _shared(tmp_path / "whole", [7] * 60, [7] * 60)
