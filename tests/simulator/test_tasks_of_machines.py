"""Which task runs on which machine, and what of a machine each of its tasks gets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from simulator import Cluster, Topology, UsageError
from simulator.launch.functions import Functions
from simulator.machines.placement import Placement, at_once, placed
from simulator.machines.protocol import Machine, MachineFacts
from simulator.run.options import Options
from simulator.run.starter import Starter
from tests.simulator._faults import own_agent

TASKS = Topology(worker=3, ps=1, chief=1).tasks


@dataclass(frozen=True)
class _Machine:
    name: str
    facts: MachineFacts


def test_tasks_go_to_machines_in_blocks() -> None:
    """Neighbours stay together, and no machine has two tasks more than another."""
    assert list(placed(TASKS, ["a", "b"], {}).values()) == ["a", "a", "a", "b", "b"]
    assert list(placed(TASKS, ["a", "b", "c"], {}).values()) == ["a", "a", "b", "b", "c"]
    assert set(placed(("worker:0",), ["a", "b"], {}).values()) == {"a"}


def test_what_was_asked_for_goes_first() -> None:
    """The others share what they would have shared without it."""
    found = placed(TASKS, ["a", "b"], {"chief:0": "b", "ps:0": "a"})
    assert found == {"chief:0": "b", "worker:0": "a", "worker:1": "a", "worker:2": "b", "ps:0": "a"}


@pytest.mark.parametrize("asked", [{"worker:7": "a"}, {"worker:0": "z"}])
def test_unknown_tasks_and_machines_are_refused(asked: dict[str, str]) -> None:
    """The message lists those there are."""
    with pytest.raises(UsageError, match=r"there is no (task .*tasks are chief:0|machine .*machines are a)"):
        placed(TASKS, ["a"], asked)


def test_ranks_and_threads_are_those_of_the_machine() -> None:
    """Not of all tasks: those of another machine take neither cores nor GPUs from these."""
    machines = [_Machine("a", MachineFacts(cores=8)), _Machine("b", MachineFacts(cores=9))]
    placement = Placement(cast("list[Machine]", machines), placed(TASKS, ["a", "b"], {}))
    options = Options(timeout=1.0, preload=(), env={}, stream=False)
    topology = Topology(worker=3, ps=1, chief=1)
    addresses = dict.fromkeys(topology.networked, "h:1")
    starter = Starter(topology, options, Path(), Functions(b""), addresses, placement)
    specs = {task: starter.spec(starter.new_task(task), environ={}, gates=(), hooks=()) for task in topology.tasks}
    assert {task: (spec.rank, spec.threads) for task, spec in specs.items()} == {
        "chief:0": (0, 2),
        "worker:0": (1, 2),
        "worker:1": (2, 2),
        "worker:2": (0, 4),
        "ps:0": (1, 4),
    }


def test_all_calls_are_made_before_an_error_is_raised() -> None:
    """Of several machines, one that fails keeps nobody from the others."""
    made: list[int] = []

    def call(number: int) -> None:
        made.append(number)
        if number == 1:
            raise ValueError(str(number))

    with pytest.raises(ValueError, match="1"):
        at_once([lambda number=number: call(number) for number in range(3)])  # type: ignore[misc]
    assert sorted(made) == [0, 1, 2]


def test_alone_there_is_one_local_machine() -> None:
    """Whose tasks have the cores to themselves."""

    def body() -> Any:
        agent = own_agent()
        return agent.spec.rank

    with Cluster(Topology(worker=2), preload=(), timeout=30) as cluster:
        result = cluster.run(body)
        assert [task.value for task in result.values()] == [0, 1]
        assert {task.machine.name for task in map(cluster.task, ("worker:0", "worker:1")) if task.machine} == {"local"}
