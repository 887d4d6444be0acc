"""Rule `resumed_elsewhere`: steps that were skipped, an end that moved, and workers at different steps."""

from __future__ import annotations

import numpy as np
import pytest

from harness.evidence.parts import Part, Parts
from harness.evidence.reference import Reference
from harness.evidence.trace import RunTrace, Step
from harness.judging.explain import Explanation
from harness.verify import judge
from tests._present import present
from tests.harness._traces import client, step

STEPS, EPOCH, AT = 8, 4, 5


def _run(*rows: tuple[int, float], worker: int | None = None) -> list[Step]:
    """Steps of a training whose weight is that of a step, and whose examples are two for each worker."""
    return [
        step(
            index,
            loss=weight / 4,
            variables={"w": np.array([weight])},
            examples=(tuple(range(4 * number, 4 * number + 4)) if worker is None else _shard(number, worker),),
            epoch=(number - 1) // EPOCH,
        )
        for index, (number, weight) in enumerate(rows, start=1)
    ]


def _shard(number: int, worker: int) -> tuple[int, ...]:
    return 4 * number + 2 * worker, 4 * number + 2 * worker + 1


def _weights(*numbers: int, off: float = 0.0) -> list[tuple[int, float]]:
    return [(number, number**2 + off) for number in numbers]


WHOLE = RunTrace((client(*_run(*_weights(*range(1, STEPS + 1))), task="local:0"),))


def _explained(last: RunTrace) -> Explanation | None:
    """Killed after step 5, and then this."""
    many = len(last.clients)
    tasks = [client_.header.task for client_ in last.clients]
    before = RunTrace(
        tuple(
            client(
                *_run(*_weights(*range(1, AT + 1)), worker=None if many == 1 else k),
                task=task,
                clients=many,
                replicas=many,
            )
            for k, task in enumerate(tasks)
        )
    )
    parts = Parts(last, (Part(before, AT, AT),), ("ckpt-4.index",))
    verdict = judge(parts, Reference(WHOLE), program="p", tasks={}, seconds=0.0)
    return verdict.explanation


def _alone(rows: list[tuple[int, float]]) -> RunTrace:
    return RunTrace((client(*_run(*rows), task="local:0"),))


def test_the_rest_of_an_epoch_that_was_skipped_is_no_dropped_tail() -> None:
    """Steps 6 to 8 are missing: what never comes back to them took all for done."""
    found = present(_explained(RunTrace((client(task="local:0"),))))
    assert found.rule == "resumed_elsewhere"
    assert "took all steps for done: steps 6 to 8 were never done. Step 8 is the last of its epoch." in found.evidence
    assert "drop_remainder" not in found.text


def test_steps_that_were_skipped_are_named() -> None:
    """The run goes on with step 7, on the weights of step 5."""
    found = present(_explained(_alone(_weights(7, 8, off=-11.0))))
    assert found.rule == "resumed_elsewhere"
    assert "went on with step 7: step 6 was never done." in found.evidence


def test_training_for_longer_is_no_lost_iterator() -> None:
    """What was left is done rightly, from the last save on, and then more follows: the end was decided otherwise."""
    found = present(_explained(_alone(_weights(*range(5, STEPS + 3)))))
    assert found.rule == "resumed_elsewhere"
    assert "went on with step 5 as it should, and did 2 more than the reference, which ends with step 8" in found.text
    assert "patience" in found.cure
    assert "iterator" not in found.text


@pytest.mark.parametrize("torn", [True, False])
def test_workers_at_different_steps_are_no_shuffle(torn: bool) -> None:
    """Worker 1 has restored the save before; where both have the same one, another mistake is told otherwise."""
    rows = _weights(5, 6, 7, 8, off=1.0)
    late = _weights(4, 5, 6, 7, off=1.0) if torn else rows
    shards = [_run(*rows, worker=0), _run(*late, worker=1)]
    clients = [client(*steps, task=f"worker:{k}", clients=2, replicas=2) for k, steps in enumerate(shards)]
    found = _explained(RunTrace(tuple(clients)))
    told = "" if found is None or found.rule != "resumed_elsewhere" else found.text
    assert ("worker:0 has the examples of step 5 and worker:1 has the examples of step 4" in told) == torn
    assert "seed" not in told


def test_a_run_that_resumes_rightly_is_not_explained() -> None:
    """The negative control: from the last save to the end."""
    assert _explained(_alone(_weights(5, 6, 7, 8))) is None
