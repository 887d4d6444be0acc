"""A run of several tasks proves by its bytes that it ran as one; as many trainings side by side do not pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness import verify
from harness.evidence.links import LinkBytes, Links
from harness.evidence.trace import RunTrace
from harness.judging.laws import Case
from harness.judging.laws.protocol import Judgement
from harness.judging.laws.tasks_connected import LAW
from harness.judging.tolerance import ExactTolerance
from harness.judging.verdict import Verdict
from tests.harness._programs import alone
from tests.harness._traces import client, step

_Carried = dict[tuple[str, str], tuple[int, int, int]]
PAIR = ("worker:0", "worker:1"), ("worker:1", "worker:0")


def _links(carried: _Carried, seconds: float | None = 1.0, tasks: tuple[str, ...] = ("worker:0", "worker:1")) -> Links:
    """Of each link: the bytes in all, those since the strategies were built, and the connections opened since."""
    links = [
        LinkBytes(src, dst, total, None if seconds is None else since, opened)
        for (src, dst), (total, since, opened) in carried.items()
    ]
    return Links(tasks, tuple(links), seconds)


def _judge(links: Links, *clients: str, variables: bool = True) -> Judgement:
    found = {"variables": {"w": np.zeros(2)}} if variables else {"loss": 1.0}
    run = RunTrace(tuple(client(step(1, **found), task=task, clients=len(clients)) for task in clients))
    return LAW.judge(Case(run, run, ExactTolerance(), links=links))


def _workers(links: Links, **options: Any) -> Judgement:
    return _judge(links, "worker:0", "worker:1", **options)


def test_one_process_is_not_concerned() -> None:
    """It has no links; two tasks without a byte between them have."""
    run = RunTrace((client(step(1, loss=1.0), task="local:0", clients=1),))
    assert not LAW.concerns(Case(run, run, ExactTolerance(), links=None))
    assert LAW.concerns(Case(run, run, ExactTolerance(), links=Links((), ())))


@pytest.mark.parametrize(("since", "opened"), [((900, 700), (0, 0)), ((10, 10), (1, 0)), ((10, 10), (0, 1))])
def test_workers_that_exchange_something_hold(since: tuple[int, int], opened: tuple[int, int]) -> None:
    """More bytes than heartbeats take, or a connection that a collective opened in either direction."""
    carried = {pair: (2000, since[k], opened[k]) for k, pair in enumerate(PAIR)}
    found = _workers(_links(carried))
    assert (found.status, found.compared) == ("held", 2)


def test_heartbeats_are_no_training() -> None:
    """Each worker is named; after a longer time more bytes are heartbeats."""
    carried = dict.fromkeys(PAIR, (2000, 250, 0))
    found = _workers(_links(carried))
    assert [finding.task for finding in found.findings] == ["worker:0", "worker:1"]
    assert "worker:1 has sent 250 bytes to other workers and got 250, no more than heartbeats" in found.findings[1].text
    more = dict.fromkeys(PAIR, (2000, 600, 0))
    assert _workers(_links(more, seconds=4.0)).status == "held"
    assert _workers(_links(more, seconds=12.0)).status == "broken"


def test_bytes_in_one_direction_are_not_enough() -> None:
    """A worker that is told something and never answers is not part of a collective."""
    found = _workers(_links({PAIR[0]: (2000, 900, 0), PAIR[1]: (800, 0, 0)}))
    assert found.status == "broken"


def test_a_task_that_no_byte_came_from_is_named() -> None:
    """Also where nothing was counted before the program began, as under faults, and whatever was reported."""
    carried = {PAIR[0]: (2000, 0, 0)}
    found = _workers(_links(carried, seconds=None), variables=False)
    assert "worker:1 has sent 0 bytes to other tasks and got 2000" in found.findings[1].text
    both = dict.fromkeys(PAIR, (500, 0, 0))
    assert _workers(_links(both, seconds=None)).status == "held"


def test_programs_without_state_may_keep_to_themselves() -> None:
    """Who only reports examples or a loss has nothing that the strategy keeps the same everywhere."""
    carried = dict.fromkeys(PAIR, (2000, 0, 0))
    assert _workers(_links(carried), variables=False).status == "held"
    assert _workers(_links(carried)).status == "broken"


def test_a_chief_needs_a_worker_that_talks_to_a_parameter_server() -> None:
    """What the chief itself exchanges with all tasks is no proof."""
    tasks = ("chief:0", "worker:0", "worker:1", "ps:0")
    carried = dict.fromkeys((("chief:0", task) for task in tasks[1:]), (900, 300, 1))
    carried |= {(other, one): found for (one, other), found in carried.items()}
    found = _judge(_links(carried, tasks=tasks), "chief:0")
    assert [finding.text for finding in found.findings] == [
        "no worker has exchanged a byte with a parameter server: the program trained in the chief by itself"
    ]
    carried |= {("worker:1", "ps:0"): (100, 100, 1), ("ps:0", "worker:1"): (80, 80, 0)}
    assert _judge(_links(carried, tasks=tasks), "chief:0").status == "held"


def test_bytes_alone_are_no_consistency() -> None:
    """A run of which no number was judged does not pass because its tasks were connected."""
    held = Judgement("tasks_connected", "held", compared=2)
    assert not Verdict("train", "multi_worker-2", (held,))
    loss = Judgement("loss_matches_reference", "held", compared=2, suffices=True)
    assert Verdict("train", "multi_worker-2", (held, loss))


@pytest.mark.parametrize("strategy", ["multi_worker-2", pytest.param("parameter_server-2w1p", marks=pytest.mark.full)])
def test_11_trainings_side_by_side_are_not_one(strategy: str) -> None:
    """All numbers are right, and the bytes say that nobody trained with anybody."""
    verdict = verify(alone, strategy, tier="exact")
    assert {law.law for law in verdict.judgements if law.status == "broken"} == {"tasks_connected"}
    assert "by itself" in str(verdict)
