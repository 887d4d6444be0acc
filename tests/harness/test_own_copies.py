"""Statistics that each replica keeps for itself, as one variable for each of them."""

from __future__ import annotations

import numpy as np
import pytest

from harness.evidence.own_copies import with_own_copies
from harness.evidence.trace import STATISTICS, Array, ClientTrace, Header, RunTrace, Seen, SeenVariable, Step


def _client(*means: float, kind: str = STATISTICS, task: str = "local:0", replicas: int = 2) -> ClientTrace:
    """With a weight whose copies agree, and statistics of which each copy holds one of these."""
    first, *others = (Array.of(np.float32(mean)) for mean in means)
    held = (SeenVariable("w", "mirrored", (Array.of(np.float32(1.0)),), 1), SeenVariable("m", kind, (first, *others)))
    seen = Seen(1, 0.0, variables=held)
    step = Step(1, 0.0, variables=tuple(each.as_reported(each.name) for each in held), seen=seen)
    return ClientTrace(Header(task, 0, "mirrored-2", replicas, len(means), 1, 20), (step,))


def _values(run: RunTrace) -> list[dict[str, list[float]]]:
    return [
        {each.name: [float(copy.numpy()) for copy in each.copies] for each in client.steps[0].variables or ()}
        for client in run.clients
    ]


def test_each_copy_becomes_a_variable() -> None:
    """So that the second one counts as well, which nobody would have compared."""
    run, reference = (RunTrace((_client(*means),)) for means in ((0.1, 0.2), (0.1, 0.3)))
    found = [_values(each)[0] for each in with_own_copies(run, reference)]
    assert [each["m of replica 1"] for each in found] == [[pytest.approx(0.2)], [pytest.approx(0.3)]]
    assert all("m" not in each and each["w"] == [1.0, 1.0] for each in found)


def test_copies_of_several_workers_are_put_together() -> None:
    """Each of them then has all, in the order of the replicas of the process that stands for them."""
    run = RunTrace(tuple(_client(mean, task=f"worker:{k}") for k, mean in enumerate((0.1, 0.2))))
    first, second = _values(with_own_copies(run, RunTrace((_client(0.1, 0.2),)))[0])
    assert first == second
    assert first["m of replica 0"] == pytest.approx([0.1])
    assert first["m of replica 1"] == pytest.approx([0.2])


@pytest.mark.parametrize(
    ("run", "reference"),
    [
        (_client(0.1, 0.2), _client(0.1, 0.1)),
        (_client(0.1, 0.2, kind="mirrored"), _client(0.1, 0.2, kind="mirrored")),
    ],
    ids=["the replicas that stand for wholes agree", "no statistics"],
)
def test_copies_that_should_agree_stay_together(run: ClientTrace, reference: ClientTrace) -> None:
    """Such as weights whose gradients were not reduced: that they differ is for a law to say."""
    found = with_own_copies(RunTrace((run,)), RunTrace((reference,)))
    assert all({"m", "w"} == set(_values(each)[0]) for each in found)
