"""Statistics that each replica keeps for itself, which are held against the reference as their mean."""

from __future__ import annotations

import numpy as np
import pytest

from harness.evidence.batch_statistics import with_means
from harness.evidence.trace import STATISTICS, Array, ClientTrace, DrawSeen, Header, RunTrace, Seen, SeenVariable, Step

_OWN = DrawSeen("statistics", "replicas normalise each by its own batch", "train.py:1")
_MEAN = "m, mean of replicas"


def _client(
    *means: float, kind: str = STATISTICS, task: str = "local:0", replicas: int = 2, own: bool = True
) -> ClientTrace:
    """With a weight whose copies agree, and statistics of which each copy holds one of these."""
    first, *others = (Array.of(np.float32(mean)) for mean in means)
    held = (SeenVariable("w", "mirrored", (Array.of(np.float32(1.0)),), 1), SeenVariable("m", kind, (first, *others)))
    seen = Seen(1, 0.0, variables=held, draws=(_OWN,) if own else ())
    step = Step(1, 0.0, variables=tuple(each.as_reported(each.name) for each in held), seen=seen)
    return ClientTrace(Header(task, 0, "mirrored-2", replicas, len(means), 1, 20), (step,), seen=(seen,))


def _values(run: RunTrace) -> list[dict[str, list[float]]]:
    return [
        {each.name: [float(copy.numpy()) for copy in each.copies] for each in client.steps[0].variables or ()}
        for client in run.clients
    ]


@pytest.mark.parametrize("truth", [_client(0.2, replicas=1), _client(0.1, 0.3, own=False)], ids=["one", "wholes"])
def test_copies_become_their_mean(truth: ClientTrace) -> None:
    """So that the second one counts as well, which nobody would have compared."""
    run, reference = (_values(each)[0] for each in with_means(RunTrace((_client(0.1, 0.3),)), RunTrace((truth,))))
    assert run[_MEAN] == reference[_MEAN] == [pytest.approx(0.2)]
    assert run["w"] == [1.0, 1.0]
    assert "m" not in run | reference


def test_copies_of_several_workers_are_put_together() -> None:
    """Each of them then has the mean over all."""
    run = RunTrace(tuple(_client(mean, task=f"worker:{k}") for k, mean in enumerate((0.1, 0.2))))
    first, second = _values(with_means(run, RunTrace((_client(0.15, replicas=1),)))[0])
    assert first == second
    assert first[_MEAN] == pytest.approx([0.15])


@pytest.mark.parametrize(
    ("run", "reference"),
    [
        (_client(0.1, 0.2), _client(0.15, replicas=1, own=False)),
        (_client(0.1, 0.2, kind="mirrored"), _client(0.15, kind="mirrored", replicas=1)),
        (_client(0.1, 0.1), _client(0.1, replicas=1)),
    ],
    ids=["the reference does not normalise so", "no statistics", "copies agree"],
)
def test_copies_that_should_agree_stay_together(run: ClientTrace, reference: ClientTrace) -> None:
    """Such as weights whose gradients were not reduced: that they differ is for a law to say."""
    found = with_means(RunTrace((run,)), RunTrace((reference,)))
    assert found
    assert all({"m", "w"} == set(_values(each)[0]) for each in found)
