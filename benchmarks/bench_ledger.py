"""What the ledger of examples costs: to check a million ids, and to record them at each step of the digits CNN."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from benchmarks.measure import Figure, main, median, seconds_of
from harness import observe
from harness.evidence.trace import ClientTrace, Header, RunTrace, Step
from harness.judging.laws import Case, Judgement, all_laws
from harness.judging.tolerance import ExactTolerance

_WORKERS, _STEPS, _SHARD = 4, 2_000, 125
_ROUNDS = 5
_TRAIN_STEPS, _WARM_UP = 120, 20


def check_a_million_ids() -> Figure:
    """Four workers of 125 ids in each of 2,000 steps next to the reference; the peer counts Python integers."""
    case = _million()
    assert _judged(case).status == "held"
    figures, peers = [], []
    for _ in range(_ROUNDS):  # in turns, so that both see the same load
        figures.append(seconds_of(lambda: _judged(case)))
        peers.append(seconds_of(lambda: _counted(case)))
    return Figure(
        name="check 1,000,000 ids, peer: Counter",
        figure=median(figures),
        unit="s",
        target=2.0,
        peer=median(peers),
        samples=_ROUNDS,
    )


def find_one_wrong_id_in_a_million() -> Figure:
    """The same where one example of the last step is another one, which has to be found and named."""
    case = _million(wrong=True)
    assert "missing 1 id" in _judged(case).findings[0].text
    seconds = [seconds_of(lambda: _judged(case)) for _ in range(_ROUNDS)]
    return Figure(name="find 1 wrong id of 1,000,000", figure=median(seconds), unit="s", target=2.0, samples=_ROUNDS)


def record_examples() -> Figure:
    """A step of the digits CNN with a frame of its own for the ids, next to the same step without: an upper bound."""
    run = observe(train, "mirrored-2")
    final = run.clients[0].final
    assert final is not None
    figure, peer = (float(value.parts[0].numpy()) for value in final.metrics or ())
    return Figure(
        name="step of the digits CNN with its ids, peer: without",
        figure=figure,
        unit="ms",
        target=1.05,
        limit_of="ratio",
        peer=peer,
        samples=_TRAIN_STEPS - _WARM_UP,
    )


def train(strategy: Any, record: Any) -> None:
    """Train the CNN on a global batch of 48, and time each step with its loss recorded, and the ids on top."""
    import time

    import keras
    import numpy as np
    import tensorflow as tf

    from scenarios.programs import digits

    data = digits.batches(digits.load()).repeat()
    with strategy.scope():
        layers = [keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(10)]
        model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
        losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    @tf.function
    def step(batch: Any) -> Any:
        def replica(images: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(losses(labels, model(images)), global_batch_size=digits.GLOBAL_BATCH)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        return strategy.reduce("SUM", strategy.run(replica, args=batch[1:]), axis=None)

    alone, ledger = [], []
    iterator = iter(strategy.experimental_distribute_dataset(data))
    for _ in range(_TRAIN_STEPS):
        start = time.perf_counter()
        batch = next(iterator)
        record.step(loss=step(batch))
        then = time.perf_counter()
        record.step(examples=batch[0])
        alone.append(then - start)
        ledger.append(time.perf_counter() - then)
    without, ids = (1e3 * float(np.median(times[_WARM_UP:])) for times in (alone, ledger))
    record.final(metrics={"with": np.float64(without + ids), "without": np.float64(without)})


def _judged(case: Case) -> Judgement:
    law = next(law for law in all_laws() if law.id == "examples_match_reference")
    return law.judge(case)


def _counted(case: Case) -> bool:
    """The same comparison, per step and over the whole run, with one Counter for each."""
    steps: list[list[Counter[int]]] = []
    for run in (case.run, case.reference):
        counters = [Counter[int]() for _ in range(_STEPS)]
        for client in run.clients:
            for step in client.steps:
                for shard in step.examples or ():
                    counters[step.index - 1].update(shard)
        steps.append(counters)
    totals = [Counter[int]() for _ in steps]
    for total, counters in zip(totals, steps, strict=True):
        for counter in counters:
            total.update(counter)
    return steps[0] == steps[1] and totals[0] == totals[1]


@cache
def _million(*, wrong: bool = False) -> Case:
    ids = list(range(_WORKERS * _STEPS * _SHARD))
    random.Random(0).shuffle(ids)
    size = _WORKERS * _SHARD
    batches = [ids[k : k + size] for k in range(0, len(ids), size)]
    reference = [_client("local:0", [(tuple(batch),) for batch in batches])]
    if wrong:
        batches[-1][-1] = batches[0][0]
    shards = [[(tuple(batch[k * _SHARD : (k + 1) * _SHARD]),) for batch in batches] for k in range(_WORKERS)]
    run = [_client(f"worker:{k}", own) for k, own in enumerate(shards)]
    return Case(RunTrace(tuple(run)), RunTrace(tuple(reference)), ExactTolerance())


def _client(task: str, shards: Sequence[tuple[tuple[int, ...], ...]]) -> ClientTrace:
    header = Header(task, 0, "synthetic", _WORKERS, 1, _WORKERS, seed=0)
    return ClientTrace(header, tuple(Step(index=k, at=0.0, examples=own) for k, own in enumerate(shards, start=1)))


MEASUREMENTS = (check_a_million_ids, find_one_wrong_id_in_a_million, record_examples)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
