"""Faults in real TensorFlow training: what needs TensorFlow to strike, and what its peers then raise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, FaultPlan, RunFailed, RunResult, Topology
from simulator.faults import Bitflip, Crash, Kill, Nan, Pause, Preempt
from simulator.faults.history import canonical_history
from tests.simulator._faults import events, own_agent, plan_of

WORKERS = Topology(worker=2)
LOCAL = Topology(devices="cpu:2")
# Without these a hang of a peer is noticed after ten seconds instead of one.
KEEPALIVE = {
    "TF_GRPC_DEFAULT_OPTIONS": "grpc.keepalive_time_ms=1000,grpc.http2.ping_timeout_ms=1000,"
    "grpc.http2.max_pings_without_data=0,grpc.keepalive_permit_without_calls=1"
}


def _train(directory: str, count: int) -> dict[str, Any]:
    """Gradient descent on |v|² + w² with a save by every worker in each step, resumed from the chief's checkpoint."""
    import tensorflow as tf

    agent = own_agent()
    if agent.spec.task == "local:0":
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    else:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        v, w = tf.Variable([1.0, 2.0], name="v"), tf.Variable(3.0, name="w")
    done = tf.Variable(0, dtype=tf.int64, name="done")
    checkpoint = tf.train.Checkpoint(v=v, w=w, done=done)
    leader = "local-0" if agent.spec.task == "local:0" else "worker-0"
    if (latest := tf.train.latest_checkpoint(f"{directory}/{leader}")) is not None:
        checkpoint.restore(latest)
    own = f"{directory}/{agent.spec.task.replace(':', '-')}"
    second = {path.name for path in Path(own).glob("ckpt-2*")}
    manager = tf.train.CheckpointManager(checkpoint, own, max_to_keep=3)

    @tf.function
    def gradients() -> Any:
        def replica() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(v * v) + w * w
            found = tape.gradient(loss, [v, w])
            return tf.distribute.get_replica_context().all_reduce("MEAN", found)

        return [strategy.experimental_local_results(part)[0] for part in strategy.run(replica)]

    begun = int(done.numpy())
    for number in range(begun + 1, count + 1):
        for variable, gradient in zip((v, w), gradients(), strict=True):
            variable.assign_sub(0.125 * gradient)
        done.assign(number)
        manager.save()
        agent.step(number)
    return {"v": v.numpy().tolist(), "begun": begun, "second": second}


def _run(plan: FaultPlan, tmp_path: Path, *, topology: Topology = WORKERS, count: int = 4, **options: Any) -> RunResult:
    (tmp_path / "checkpoints").mkdir(parents=True)
    with Cluster(topology, timeout=90, faults=plan, out=tmp_path / "out", env=KEEPALIVE, **options) as cluster:
        return cluster.run(_train, str(tmp_path / "checkpoints"), count)


@pytest.mark.parametrize("target", ["gradient", pytest.param("variable", marks=pytest.mark.full)])
def test_nan_strikes_one_number_in_one_step(tmp_path: Path, target: str) -> None:
    """In multi-worker training a NaN in one worker's gradient reaches all of them by the all-reduce."""
    result = _run(plan_of(Nan("worker:1", step=2, target=target, name="v:0", element=1)), tmp_path)
    (fired,) = events(tmp_path / "out", "fired")
    changed = fired["effect"]["changed"]["worker:1"]
    # v loses 0.125 * 2v, a quarter, in each step; every number is exact in float32.
    before = {"gradient": 2 * 2 * 0.75, "variable": 2 * 0.75**2}[target]
    assert (changed["variable"], changed["element"], changed["after"]) == ("v:0", 1, "nan")
    assert float(changed["before"]) == before
    assert [str(task.value["v"]) for task in result.values()] == [f"[{0.75**4}, nan]"] * 2


def test_bitflip_changes_one_bit_on_one_replica(tmp_path: Path) -> None:
    """The sign bit of one element of the second replica's gradient: the mean of -g and g is 0 in that step."""
    plan = plan_of(Bitflip("local:0", step=3, name="v:0", element=0, bit=31, replica=1))
    result = _run(plan, tmp_path, topology=LOCAL)
    assert result["local:0"].value["v"] == [0.75**3, 2 * 0.75**4]


@pytest.mark.full
def test_a_bit_of_what_one_replica_gets_of_a_reduction(tmp_path: Path) -> None:
    """The first one adds what it should take off, and the second one does not."""
    plan = plan_of(Bitflip("local:0", step=3, target="reduction", element=0, bit=31))
    result = _run(plan, tmp_path, topology=LOCAL)
    assert result["local:0"].value["v"] == [0.75**3 * 1.25, 2 * 0.75**4]
    (fired,) = events(tmp_path / "out", "fired")
    assert fired["effect"]["changed"]["local:0"]["variable"] == "what is reduced"


def test_a_gradient_that_nobody_computes_has_no_effect(tmp_path: Path) -> None:
    """The negative control: a name that matches no variable fails the run."""
    with pytest.raises(RunFailed, match="no gradient nobody was changed"):
        _run(plan_of(Nan("worker:1", step=2, name="nobody")), tmp_path)
    with pytest.raises(RunFailed, match="no variable nobody; there are v:0, w:0"):
        _run(plan_of(Nan("local:0", step=2, name="nobody", target="variable")), tmp_path / "b", topology=LOCAL)


@pytest.mark.full  # scenarios/test_faults.py shows it too
def test_the_peer_of_a_killed_worker_raises_unavailable_error(tmp_path: Path) -> None:
    """The survivor does not hang; its error is not the plan's and has to be expected."""
    plan = plan_of(Kill("worker:1", of="worker:*", step=2))
    (tmp_path / "checkpoints").mkdir()
    with Cluster(WORKERS, timeout=90, faults=plan, env=KEEPALIVE) as cluster:
        cluster.expect("worker:0", error="UnavailableError")
        result = cluster.run(_train, str(tmp_path / "checkpoints"), 4)
    assert (result["worker:1"].signal, result["worker:0"].steps) == ("SIGKILL", 2)


PHASES = {
    # What the chief's directory has of its second save when it dies there, and from which step the job resumes.
    "before_save": (set(), 1),
    "in_save": (set(), 1),
    "after_data_before_index": ({"ckpt-2_temp"}, 1),
    "after_save": ({"ckpt-2.index", "ckpt-2.data-00000-of-00001"}, 2),
}


# Before a save a fault also strikes in test_saves_tensorflow, and all of them at fake saves in test_saves.
@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("before_save", marks=pytest.mark.full),
        pytest.param("in_save", marks=pytest.mark.full),
        pytest.param("after_data_before_index", marks=pytest.mark.full),
        "after_save",
    ],
)
def test_death_in_a_phase_of_a_save(tmp_path: Path, phase: str) -> None:
    """The save is where its phase says when the chief dies; the job resumes from the last complete one, exactly."""
    plan = plan_of(Crash("worker:0", how="segfault", phase=phase, nth=2))
    result = _run(plan, tmp_path, restarts=1)
    left, begun = PHASES[phase]
    assert result["worker:0"].value == {"v": [0.75**4, 2 * 0.75**4], "begun": begun, "second": left}
    assert [task.incarnation for task in result.values()] == [1, 1]


def test_restoring_and_joining_are_phases_too(tmp_path: Path) -> None:
    """A pause before the restore of the second run, and one before the cluster is joined, cost only time."""
    _run(FaultPlan(), tmp_path / "first", count=2)
    plan = plan_of(
        Pause("worker:1", phase="at_barrier", duration="100ms"),
        Pause("worker:0", phase="before_restore", duration="100ms"),
    )
    with Cluster(WORKERS, timeout=90, faults=plan, env=KEEPALIVE, out=tmp_path / "out") as cluster:
        result = cluster.run(_train, str(tmp_path / "first" / "checkpoints"), 4)
    assert [task.value["begun"] for task in result.values()] == [2, 2]
    assert len(events(tmp_path / "out", "fired")) == 2


def test_a_worker_that_comes_back_when_the_other_is_done_restarts_the_job(tmp_path: Path) -> None:
    """Alone it would wait in the strategy's constructor without end; the job restarts, and resumes after the end."""
    plan = plan_of(Kill("worker:1", of="worker:*", step=4, restart="10ms"))
    result = _run(plan, tmp_path, restarts=1)
    assert [task.incarnation for task in result.values()] == [1, 2]
    assert [task.value["begun"] for task in result.values()] == [4, 4]
    assert result["worker:0"].value["v"] == [0.75**4, 2 * 0.75**4]


def test_workers_that_are_done_before_the_grace_is_over_are_not_preempted(tmp_path: Path) -> None:
    """TensorFlow ignores SIGTERM: the training goes on to its end, and nobody waits for the grace or comes back."""
    faults = [Preempt(task, step=2, grace="60s", restart="10ms") for task in WORKERS.tasks]
    result = _run(plan_of(*faults), tmp_path)
    assert [(task.incarnation, task.exit) for task in result.values()] == [(0, 0)] * 2
    assert [task.value["v"] for task in result.values()] == [[0.75**4, 2 * 0.75**4]] * 2


@pytest.mark.full  # test_faults_history has it without TensorFlow
def test_two_runs_of_one_seed_have_one_history(tmp_path: Path) -> None:
    """With real training: kill, restart of the job, resume from the checkpoint, twice the same."""
    plan = plan_of(Kill("worker:?", of="worker:*", step="2..3"), seed=4)
    histories = []
    for name in ("a", "b"):
        result = _run(plan, tmp_path / name, restarts=1)
        assert result["worker:0"].value["v"] == [0.75**4, 2 * 0.75**4]
        histories.append(canonical_history(tmp_path / name / "out" / "0" / "journal.jsonl"))
    assert histories[0] == histories[1]
    assert any("incarnation 1" in line for line in histories[0])
