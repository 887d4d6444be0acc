"""Who tells TensorFlow of the batch of one replica contributes as many times too much: then nothing is left open."""

from __future__ import annotations

import pytest

from harness.evidence.averages import Average
from harness.evidence.counters import Counters
from harness.evidence.stand_ins import COUNT, StandIn
from harness.evidence.trace import ClientTrace, Header, RunTrace, Seen
from harness.judging.assumptions import with_assumptions
from harness.judging.batch_of_average import average_of_one_replica
from harness.judging.laws import Judgement
from harness.judging.native_scale import NativeRun
from harness.judging.verdict import Verdict


def _run(batch: int, *shares: tuple[int, ...], told: tuple[StandIn, ...] = (), calls: int = 1) -> RunTrace:
    """Processes whose replicas have so many examples each at the first step, of which a line says `batch`."""

    def client(number: int, share: tuple[int, ...]) -> ClientTrace:
        header = Header(f"worker:{number}", 0, "multi_worker-2", sum(map(len, shares)), len(share), len(shares), 0, {})
        rows = tuple(
            tuple(range(100 * number + 10 * at, 100 * number + 10 * at + size)) for at, size in enumerate(share)
        )
        counters = Counters(averages=(Average("train.py:7", batch, 1),), stand_ins=told)
        return ClientTrace(header, seen=(Seen(index=1, at=0.0, examples=rows, calls=calls),), counters=counters)

    return RunTrace(tuple(client(number, share) for number, share in enumerate(shares)))


@pytest.mark.parametrize(
    ("batch", "shares", "times"),
    [
        (4, [(4, 4)], 2),
        (4, [(4,), (4,)], 2),
        (4, [(4, 4), (4, 4)], 4),
        (8, [(4, 4), (4, 4)], 2),  # of one worker
        (8, [(4, 4)], None),  # of all
        (8, [(4,), (4,)], None),
        (16, [(4, 4)], None),  # the last batch of an epoch
        (4, [(4, 3)], None),
        (6, [(4, 4)], None),  # any other number
        (4, [(4,)], None),  # one replica has all
        (4, [(), ()], None),  # examples that were not seen
    ],
)
def test_the_batch_of_one_is_known(batch: int, shares: list[tuple[int, ...]], times: int | None) -> None:
    """By what each replica, or each worker, had in the step in which the line was run first."""
    found = average_of_one_replica(_run(batch, *shares))
    assert (None if found is None else found[1]) == times


@pytest.mark.parametrize(("batch", "times"), [(4, 2), (8, None), (12, None)])
def test_a_loop_over_batches_is_one_step(batch: int, times: int | None) -> None:
    """Three batches of four examples for each replica, in a `tf.function` that loops over them."""
    found = average_of_one_replica(_run(batch, (12, 12), calls=3))
    assert (None if found is None else found[1]) == times


@pytest.mark.parametrize(
    ("batch", "factor", "outcome"),
    [
        (4, 2.0, "inconsistent"),
        (4, 1.0, "consistent"),  # a mean over replicas of their means
        (4, None, "abstained"),  # nobody knows what they contribute
        (8, 2.0, "abstained"),  # a sum over examples, or divided besides
        (4, 4.0, "abstained"),
    ],
)
def test_it_settles_what_replicas_contribute(batch: int, factor: float | None, outcome: str) -> None:
    """Only beside what is known from the script as it is on one device: a line alone may be divided once more."""
    run = _run(batch, (4, 4), told=(StandIn(f"{COUNT} multiplies", "train.py:3", "2"),))
    law = Judgement("variables_match_reference", "held", compared=3, suffices=True)
    held = Verdict("train.py", "mirrored-2", (law,))
    verdict = with_assumptions(held, run, run, 2, natively=lambda: NativeRun(factor))
    assert verdict.outcome == outcome, str(verdict)
    if outcome == "inconsistent":
        (finding,) = verdict.findings
        assert "train.py:7" in finding.text
        assert finding.law == "global_batch"
