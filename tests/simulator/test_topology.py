"""Tests of topologies, their validation and their TF_CONFIG."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulator import Devices, Topology, UsageError
from simulator.topology import matching


def test_tasks_start_with_the_leader() -> None:
    """Chief first, then workers, ps and the evaluator."""
    topology = Topology(worker=2, ps=1, chief=1, evaluator=1)
    assert topology.tasks == ("chief:0", "worker:0", "worker:1", "ps:0", "evaluator:0")


def test_workers_are_clients_unless_there_are_parameter_servers() -> None:
    """With ps tasks only chief and evaluator run the function; without, every task does."""
    assert Topology(worker=2).clients == ("worker:0", "worker:1")
    assert Topology(worker=2, ps=1, chief=1, evaluator=1).clients == ("chief:0", "evaluator:0")


def test_each_task_sees_its_own_tf_config() -> None:
    """All tasks share the cluster and differ in the task; the evaluator is not part of the cluster."""
    topology = Topology(chief=1, worker=2, evaluator=1)
    addresses = {"chief:0": "127.0.0.1:1", "worker:0": "127.0.0.1:2", "worker:1": "worker-1:3"}
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2", "worker-1:3"]}
    assert json.loads(topology.tf_config("worker:1", addresses) or "") == {
        "cluster": cluster,
        "task": {"type": "worker", "index": 1},
    }
    assert json.loads(topology.tf_config("evaluator:0", addresses) or "") == {
        "cluster": cluster,
        "task": {"type": "evaluator", "index": 0},
    }


def test_no_task_counts_mean_one_local_process() -> None:
    """The default topology is one process without TF_CONFIG."""
    topology = Topology()
    assert topology.tasks == ("local:0",)
    assert topology.tf_config("local:0", {}) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"worker": -1}, "whole number from 0 to 128"),
        ({"worker": 1.5}, "whole number"),
        ({"worker": True}, "whole number"),
        ({"chief": 2}, "from 0 to 1"),
        ({"worker": 1, "evaluator": 2}, "from 0 to 1"),
        ({"ps": 1}, "at least one worker"),
        ({"evaluator": 1}, "add worker=N or chief=1"),
        ({"worker": 1, "devices": "tpu:1"}, "write cpu:N or gpu:N"),
        ({"worker": 1, "devices": "cpu:0"}, "write cpu:N or gpu:N"),
        ({"worker": 1, "devices": {"wroker": "cpu:1"}}, "jobs are chief, worker, ps, evaluator"),
        ({"worker": 1, "devices": {"worker": "cpu"}}, "for example cpu:2"),
    ],
)
def test_a_senseless_topology_is_a_usage_error_that_names_the_accepted_form(
    arguments: dict[str, Any], message: str
) -> None:
    """Wrong counts and devices are refused before anything starts."""
    with pytest.raises(UsageError, match=message):
        Topology(**arguments)


def test_devices_are_given_for_all_jobs_or_for_each() -> None:
    """A string holds for all tasks but ps, which computes nothing; a mapping names jobs."""
    assert Topology(chief=1, worker=1, ps=1, devices="cpu:2").devices_of("ps") == Devices("cpu", 1)
    assert Topology(chief=1, worker=1, devices={"worker": "gpu:3"}).devices_of("worker") == Devices("gpu", 3)
    assert Topology(chief=1, worker=1, devices={"worker": "gpu:3"}).devices_of("chief") == Devices("cpu", 1)


def test_a_task_that_does_not_exist_is_a_usage_error() -> None:
    """The message lists the tasks there are."""
    with pytest.raises(UsageError, match="tasks are worker:0, worker:1"):
        Topology(worker=2).check_task("worker:2")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("worker:1", ["worker:1"]),
        ("worker", [f"worker:{each}" for each in range(12)]),
        ("worker:*", [f"worker:{each}" for each in range(12)]),
        ("worker:2-4", ["worker:2", "worker:3", "worker:4"]),
        ("worker:10-99", ["worker:10", "worker:11"]),
        ("worker:4-2", []),
        ("worker:[01]", ["worker:0", "worker:1"]),
        ("*:0", ["worker:0", "ps:0"]),
        ("ps", ["ps:0"]),
        ("p", []),
    ],
)
def test_a_pattern_means_tasks(pattern: str, found: list[str]) -> None:
    """The same for faults, links and expected failures."""
    tasks = Topology(worker=12, ps=1).tasks
    assert list(matching(pattern, tasks)) == found
    assert matching("*", tasks) == tasks
