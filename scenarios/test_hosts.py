"""Training between hosts: each task has a name, an address and a loopback of its own, and packets can be lost.

The numbers are those of an undisturbed run: TCP sends again what is lost, and a partition that ends in time costs only
time. The bounds of detection are those of docs/faults-measured.md and ten seconds more, since the machine may be busy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import StrategyCase
from scenarios.programs.faulted import asynchronous
from scenarios.programs.faulted.judging import problems
from scenarios.programs.faulted.surviving import plan_of, running, survive
from scenarios.programs.faulted.synchronous import LIMIT, train
from simulator import Cluster, Link
from simulator.faults import Delay, Flap, Kill, Loss, Partition, Rate

pytestmark = pytest.mark.requires(network="namespaces")
TABLE = "What training does between hosts"
MARGIN_SECONDS = 10.0
FULL = pytest.mark.full
HOSTS = "namespaces"
ENDS: dict[str, Any] = {"src": "worker:0", "dst": "worker:1", "step": 7}
# So many packets that none is lost once in 20,000 runs.
FROM_STEP_2 = {**ENDS, "step": 2}

Report = Callable[[str, Mapping[str, object]], None]


@pytest.mark.cluster(worker=2, evaluator=1, network=HOSTS)
def test_tensorflow_knows_its_peers_by_name(cluster: Cluster) -> None:
    """`TF_CONFIG` has host names and one port for all; TensorFlow resolves them, and the evaluator has a host too."""

    def meet() -> tuple[str, list[str], int]:
        import socket

        import tensorflow as tf

        config = json.loads(os.environ["TF_CONFIG"])
        if config["task"]["type"] == "evaluator":
            return socket.gethostname(), config["cluster"]["worker"], 0
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        total = strategy.reduce("sum", strategy.run(lambda: tf.constant(1)), axis=None)
        return socket.gethostname(), strategy.cluster_resolver.cluster_spec().as_dict()["worker"], int(total)

    found = cluster.run(meet)
    spec = ["worker-0:2222", "worker-1:2222"]
    assert found["worker:0"].value == ("worker-0", spec, 2)
    assert found["worker:1"].value == ("worker-1", spec, 2)
    assert found["evaluator:0"].value == ("evaluator-0", spec, 0)


BAD = {
    "loss": Loss(loss="10%", **FROM_STEP_2),
    "rate": Rate(rate="200kB/s", **ENDS),
    "partition": Partition(**ENDS, duration="1500ms"),
}
BAD_FULL = {
    # TCP waits 0.2 s for a lost packet, then twice as long each time: six losses in a row are a silence of 12 s, in
    # which TensorFlow's heartbeats fail. Of 120 packets at 30 % one run in twelve has that, at 15 % one in 700.
    "loss_one_way": Loss(loss="15%", one_way=True, **FROM_STEP_2),
    "partition_there": Partition(**ENDS, duration="1500ms", one_way=True),
    "partition_back": Partition(src="worker:1", dst="worker:0", step=7, duration="1500ms", one_way=True),
    "delay": Delay(delay="20ms", **ENDS),
    "flap": Flap(mode="blackhole", **ENDS, times=3, down="400ms", up="200ms"),
}


@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize("fault", [*BAD, *(pytest.param(name, marks=FULL) for name in BAD_FULL)])
def test_a_bad_cable_costs_only_time(strategy: StrategyCase, fault: str, tmp_path: Path, report_row: Report) -> None:
    """Lost packets, a thin cable, and a partition that ends before it is noticed change no number."""
    plan = plan_of({**BAD, **BAD_FULL}[fault])
    told = survive(strategy, plan, train, tmp_path, restarts=0, env={}, limit=None, network=HOSTS)
    assert problems(told, tmp_path) == []
    assert not told.of("error")
    (undone,) = told.of("undone")
    lost, packets = undone["effect"]["lost"], undone["effect"]["packets"]
    report_row(TABLE, told.row(strategy, f"between hosts: went on, exact; {lost} of {packets} packets lost meanwhile"))


@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize("limit", [pytest.param(LIMIT, id="limit"), pytest.param(None, id="heartbeats", marks=FULL)])
def test_a_long_partition_ends_in_an_exact_restart(
    strategy: StrategyCase, limit: float | None, tmp_path: Path, report_row: Report
) -> None:
    """Packets that vanish for longer are noticed in time, and the restarted job repeats the undisturbed numbers."""
    seconds = 12.0 if limit is None else limit + 0.5
    plan = plan_of(Partition(**ENDS, duration=f"{seconds}s"))
    told = survive(strategy, plan, train, tmp_path, env={}, limit=limit, network=HOSTS)
    assert problems(told, tmp_path, 4) == []
    assert told.detection is not None
    kind, _, late = told.detection
    assert told.crashed or kind in ("DeadlineExceededError", "UnavailableError")
    assert told.crashed or (limit or 5.0) - 0.1 <= late
    assert late <= (limit or 10.0) + MARGIN_SECONDS
    report_row(TABLE, told.row(strategy, "between hosts: job restarted, resumed after step 4, exact"))


@pytest.mark.strategies("multi_worker-2")
def test_a_killed_worker_comes_back_to_its_host(strategy: StrategyCase, tmp_path: Path, report_row: Report) -> None:
    """The host outlives the process: its next incarnation has the same name, and the job resumes."""
    told = survive(strategy, plan_of(Kill("worker:1", step=7)), train, tmp_path, env={}, network=HOSTS)
    assert problems(told, tmp_path, 4) == []
    report_row(TABLE, told.row(strategy, "between hosts: job restarted, resumed after step 4, exact"))


@pytest.mark.strategies("parameter_server-2w1p")
@pytest.mark.parametrize("loss", ["2%", pytest.param("10%", marks=FULL)])
def test_parameter_servers_lose_packets_and_no_update(strategy: StrategyCase, loss: str, report_row: Report) -> None:
    """Each update is applied exactly once although packets of every link are lost."""
    links = [Link(src="*", dst="*", loss=loss)]
    with running(strategy, asynchronous.train, cluster={"links": links, "timeout": 60.0, "network": HOSTS}) as (
        _,
        join,
    ):
        told = join()
    assert told.failure is None
    value = told.result["chief:0"].value
    assert value["weights"] == [-asynchronous.LEARNING_RATE] * asynchronous.UPDATES
    assert value["counter"] == asynchronous.UPDATES
    lost = sum(link.lost for link in told.result.links)
    assert lost > 0
    packets = sum(link.packets for link in told.result.links)
    report_row(
        "Parameter-server training with lost packets",
        {
            "loss": loss,
            "updates": value["counter"],
            "lost": f"{lost} of {packets}",
            "seconds": f"{value['seconds']:.1f}",
        },
    )


@pytest.mark.strategies("multi_worker-2")
def test_a_loss_that_loses_nothing_fails_the_run(strategy: StrategyCase, tmp_path: Path) -> None:
    """Negative control: all numbers are right, and yet the run fails, since no packet was lost."""
    plan = plan_of(Loss(loss="0.0001%", **ENDS))
    told = survive(strategy, plan, train, tmp_path, restarts=0, env={}, limit=None, network=HOSTS)
    assert told.failure is not None
    assert told.failure.root_cause.kind == "FaultWithoutEffect"
