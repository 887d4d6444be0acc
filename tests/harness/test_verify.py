"""`verify` with real tasks: right programs pass, wrong ones do not, and nothing passes for the wrong reason.

The numbers in test names are those of the list in docs/truthfulness.md.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import MissingHardware, NothingObserved, StrategyCase, judgement, strategy_case, verify
from harness.judging.verdict import Verdict
from harness.running import observe
from harness.subject.strategies import all_kinds
from harness.verify import check_hardware, on_verdict
from simulator import Cluster, RunFailed, Topology, UsageError
from simulator.capabilities import accelerators
from tests._present import present
from tests.harness._mistaken import commuting
from tests.harness._programs import STEPS, exact, hanging, mlp, one_value, silent, worker_that
from tests.harness._sharing import sharing


def _broken(verdict: Verdict) -> set[str]:
    return {judgement.law for judgement in verdict.judgements if judgement.status == "broken"}


def _held(verdict: Verdict) -> set[str]:
    return {judgement.law for judgement in verdict.judgements if judgement.status == "held"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which verifications of the right program are kept, each in place of the one before it."""
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def right(out: Path) -> dict[str, Verdict]:
    """The verdicts on the right program under two strategies."""
    return {name: verify(exact(), name, tier="exact", out=out) for name in ("multi_worker-2", "mirrored-2")}


# All strategies in the quick profile: scenarios/test_training.py.
@pytest.mark.parametrize(
    "strategy",
    [
        *("default", "mirrored-2", "multi_worker-2"),
        *(pytest.param(each, marks=pytest.mark.full) for each in ("mirrored-3", "central_storage-2")),
    ],
)
def test_a_right_program_is_consistent_bit_for_bit(strategy: str, right: dict[str, Verdict]) -> None:
    """Loss, gradients, variables, examples and predictions of an exact program equal the reference's."""
    verdict = right.get(strategy) or verify(exact(), strategy, tier="exact")
    assert verdict, str(verdict)
    matching = {f"{what}_match_reference" for what in ("steps", "examples", "gradients", "variables", "predictions")}
    assert matching | {"loss_matches_reference", "finite"} <= _held(verdict)
    assert verdict.worst_ratio == 0.0
    assert (verdict.links is None) == (strategy != "multi_worker-2")


def test_11_a_run_of_several_tasks_says_what_its_links_carried(right: dict[str, Verdict]) -> None:
    """In the text and in JSON, by directed link."""
    verdict = right["multi_worker-2"]
    assert set(verdict.to_json()["links"]) == {"worker:0 -> worker:1", "worker:1 -> worker:0"}
    assert all(carried > 1000 for carried in verdict.to_json()["links"].values())
    assert "  bytes between tasks: worker:0 -> worker:1 " in str(verdict)


def test_out_keeps_what_was_observed_and_the_verdict(out: Path, right: dict[str, Verdict]) -> None:
    """Traces, logs and the verdict are kept, and a second run into the same directory replaces the first."""
    assert [path.name for path in (out / "traces").glob("*.trace")] == ["local-0.trace"]
    assert msgspec.json.decode((out / "verdict.json").read_bytes()) == right["mirrored-2"].to_json()
    assert list((out / "run").rglob("*.log"))


def test_a_right_coordinator_program_is_consistent() -> None:
    """Asynchronous updates that commute give the reference's numbers, and as many as were scheduled."""
    verdict = verify(commuting(), "parameter_server-1w1p", tier="exact")
    assert verdict, str(verdict)
    assert {"variables_match_reference", "updates_counted"} <= _held(verdict)
    assert {name: task["exit"] for name, task in verdict.tasks.items()} == {"chief:0": 0, "worker:0": 0, "ps:0": 0}


@pytest.mark.parametrize(
    ("mistake", "strategy", "law", "step"),
    [
        ("mean_then_sum", "mirrored-2", "loss_matches_reference", 1),
        ("mean_then_sum", "multi_worker-2", "loss_matches_reference", 1),
        ("example_dropped", "mirrored-2", "examples_match_reference", 1),
        # Several workers in the quick profile: the first mistake.
        pytest.param("example_dropped", "multi_worker-2", "examples_match_reference", 1, marks=pytest.mark.full),
        ("copy_off", "mirrored-2", "replicas_agree", 2),
        pytest.param("copy_off", "multi_worker-2", "replicas_agree", 2, marks=pytest.mark.full),
        pytest.param("iterator_restarted", "mirrored-3", "examples_match_reference", 2, marks=pytest.mark.full),
        ("step_skipped", "mirrored-2", "steps_match_reference", STEPS),
    ],
)
def test_the_smallest_wrong_programs_are_inconsistent(mistake: str, strategy: str, law: str, step: int) -> None:
    """Each mistake breaks its law at the step at which it is made."""
    verdict = verify(sharing(exact(mistake), exact()), strategy, tier="exact")
    assert not verdict
    assert law in _broken(verdict), str(verdict)
    assert min(finding.step for finding in verdict.findings if finding.law == law and finding.step) == step
    assert present(verdict.first_divergence).step == step


def test_a_lost_update_is_inconsistent() -> None:
    """One of eight asynchronous updates that is never scheduled, the sixth, shows in the variables, and is named."""
    verdict = verify(commuting("lost"), "parameter_server-1w1p", tier="exact")
    assert "variables_match_reference" in _broken(verdict), str(verdict)
    assert verdict.first_divergence is not None
    assert (verdict.first_divergence.observed, verdict.first_divergence.expected) == (255.0 - 32.0, 255.0)
    assert present(verdict.explanation).rule == "update_lost"


def test_8_replicas_that_agree_with_each_other_but_not_with_the_truth_are_inconsistent() -> None:
    """All copies are the same wrong number, so only the comparison with the reference can see it."""
    verdict = verify(sharing(exact("applied_twice"), exact()), "mirrored-2", tier="exact")
    assert not verdict
    assert "replicas_agree" in _held(verdict)
    assert "variables_match_reference" in _broken(verdict)


def test_the_exact_tier_catches_one_unit_in_the_last_place() -> None:
    """A loss that is the next float32 is reported, with its step and with nothing else."""
    verdict = verify(sharing(exact("one_ulp"), exact()), "mirrored-2", tier="exact")
    assert _broken(verdict) == {"loss_matches_reference"}
    first = present(verdict.first_divergence)
    assert (first.step, first.bound) == (3, 0.0)
    assert first.observed is not None
    assert 0 < first.observed - present(first.expected) < 1e-6


@pytest.mark.full  # each right program of the suites is summed in another order than its reference
@pytest.mark.parametrize("strategy", ["mirrored-2", "mirrored-3", "multi_worker-2"])
def test_the_derived_tier_accepts_another_order_of_summation(strategy: str) -> None:
    """A real model, rounded differently on two and three replicas, stays well within the bound."""
    verdict = verify(mlp(), strategy)
    assert verdict, str(verdict)
    assert verdict.notes == ()
    assert verdict.worst_ratio is not None
    assert 0 < verdict.worst_ratio < 0.5, f"observed / bound = {verdict.worst_ratio:.3g}"


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["mirrored-2", "mirrored-3"])
@pytest.mark.parametrize("mistake", ["example_dropped", "divisor"])
def test_the_derived_tier_rejects_the_smallest_wrong_rule(mistake: str, strategy: str) -> None:
    """One example of 64 dropped, or 63 for 64, exceeds the bound in the first step, by orders of magnitude."""
    verdict = verify(sharing(mlp(mistake), mlp()), strategy)
    assert not verdict
    assert {"loss_matches_reference", "gradients_match_reference", "variables_match_reference"} <= _broken(verdict)
    assert present(verdict.first_divergence).step == 1
    assert verdict.worst_ratio is not None
    assert verdict.worst_ratio > 100, f"observed / bound = {verdict.worst_ratio:.3g}"


@pytest.mark.full
def test_an_example_whose_data_is_another_each_time_is_no_draw() -> None:
    """What is computed from it is right; that the run has it, and one device another one, is what is wrong."""
    verdict = verify(sharing(mlp("weight_changed"), mlp()), "mirrored-2", explain=False)
    assert _broken(verdict) == {"rows_whole"}


def test_a_program_can_be_named_by_file_and_function(tmp_path: Path) -> None:
    """The file is imported in the tasks, finds its neighbours, and is not imported in this process."""
    (tmp_path / "neighbour_of_train.py").write_text("LOSS = 0.5\n")
    (tmp_path / "train_here.py").write_text(
        "import tensorflow as tf\nimport neighbour_of_train\n"
        "def train(strategy, record):\n"
        "    losses = strategy.run(lambda: tf.constant(neighbour_of_train.LOSS))\n"
        "    record.step(loss=strategy.reduce('MEAN', losses, axis=None))\n"
    )
    verdict = verify(f"{tmp_path / 'train_here.py'}:train", "mirrored-2", tier="exact")
    assert verdict
    assert verdict.program == "train_here.py:train"
    assert not {"tensorflow", "train_here", "neighbour_of_train"} & set(sys.modules)


def test_a_right_program_is_run_twice(tmp_path: Path) -> None:
    """Under the strategy, and by the process that follows; what rounding does is asked where the two differ by more."""
    note = tmp_path / "runs"
    assert verify(exact(note=str(note)), "mirrored-2")
    assert len(note.read_text().splitlines()) == 2


def test_a_kept_reference_is_made_again_when_what_it_has_read_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of the project, and a file; one that is written again as it was is the same."""
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    module, data, note = tmp_path / "kept_rate.py", tmp_path / "data.txt", tmp_path / "runs"
    module.write_text("RATE = 0.5\n")
    data.write_text("2.0")
    place = str(tmp_path)

    def train(strategy: Any, record: Any) -> None:
        import os
        import sys

        sys.path.insert(0, place)
        import kept_rate  # type: ignore[import-not-found]
        import tensorflow as tf

        with open(f"{place}/data.txt") as file:  # noqa: PTH123 - as people do
            value = float(file.read())
        with open(f"{place}/runs", "a") as file:  # noqa: PTH123
            file.write(f"{os.getpid()}\n")
        record.step(loss=strategy.reduce("SUM", tf.constant(value * kept_rate.RATE), axis=None))

    def runs() -> int:
        before = len(note.read_text().splitlines()) if note.exists() else 0
        assert verify(train, "one_device", tier="exact")
        return len(note.read_text().splitlines()) - before

    assert [runs(), runs()] == [2, 1]
    module.write_text("RATE = 0.25\n")
    assert [runs(), runs()] == [2, 1]
    data.write_text("3.0")
    assert [runs(), runs()] == [2, 1]
    data.write_text("3.0")
    assert runs() == 1


@pytest.mark.parametrize(("error", "runs"), [(1e-4, 7), pytest.param(1.0, 4, marks=pytest.mark.full)])
def test_before_an_accusation_more_is_run_unless_the_error_is_plain(
    error: float, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss off by a hundred of its bounds might be an accident of two draws; one that is doubled is none.

    The run and the process that follows it are two of these. What it may be is asked once, when no more is wanted.
    """
    note, asked = str(tmp_path / "runs"), []
    monkeypatch.setattr(judgement, "explanation_of", lambda case, **options: asked.append(case))

    def train(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        with open(note, "a") as file:  # noqa: PTH123 - as people do
            file.write("ran\n")

        with strategy.scope():
            w = tf.Variable([0.3, 0.7])
        count = strategy.num_replicas_in_sync
        parts = strategy.run(lambda: tf.reduce_sum(w * w) / count)
        record.step(loss=strategy.reduce("SUM", parts, axis=None) * (1 + error * (count - 1)), variables=[w])

    verdict = verify(train, "mirrored-2")
    assert _broken(verdict) == {"loss_matches_reference"}
    assert len((tmp_path / "runs").read_text().splitlines()) == runs
    assert len(asked) == 1


def test_another_seed_has_another_reference() -> None:
    """A program that draws random numbers is compared with a reference of the same seed."""

    def drawing(strategy: Any, record: Any) -> None:
        import random

        import numpy as np
        import tensorflow as tf

        record.step(metrics={"python": random.random(), "numpy": np.random.rand(), "tf": tf.random.uniform([])})

    for seed in (1, 2):
        assert verify(drawing, "mirrored-2", tier="exact", seed=seed)


def test_a_listener_hears_verdicts_in_its_context_only() -> None:
    """The pytest plugin learns of verdicts through `on_verdict`, and of none afterwards."""
    heard: list[Verdict] = []
    with on_verdict(heard.append):
        verdict = verify(one_value, "default", tier="exact")
    verify(one_value, "one_device", tier="exact")
    assert heard == [verdict]


def test_a_program_that_observes_nothing_is_an_error() -> None:
    """Calls without a value, a missing gradient and an empty mapping among them, are not an observation."""
    with pytest.raises(NothingObserved, match=r"silent observed nothing.*record\.step\(loss=loss"):
        verify(silent, "default", tier="exact")


@pytest.mark.parametrize(
    ("fate", "kind", "fragment"),
    [
        ("raises", "ArithmeticError", "worker 1 miscounted"),
        ("exits", "NoResult", "without returning a result"),
        ("killed", "Signal", "SIGKILL"),
    ],
)
def test_a_worker_that_fails_fails_the_run(fate: str, kind: str, fragment: str) -> None:
    """Nothing is judged when one worker raises, leaves or is killed; it is named first, with the steps it did."""
    with pytest.raises(RunFailed) as caught:
        verify(worker_that(fate), "multi_worker-2", tier="exact", timeout=30)
    cause = caught.value.root_cause
    assert (cause.task, cause.kind) == ("worker:1", kind)
    assert fragment in str(caught.value)
    assert caught.value.result["worker:1"].steps == 2


def test_a_program_that_fails_on_one_device_is_told_apart() -> None:
    """The message says that it was the reference run, whose only task has the same name as that of a mirrored run."""

    def train(strategy: Any, record: Any) -> None:
        raise LookupError("no data")

    with pytest.raises(RunFailed, match=r"reference run[\s\S]*LookupError: no data"):
        verify(train, "mirrored-2", tier="exact")


@pytest.mark.full  # test_plugin has a hang in a session
def test_10_a_hang_fails_with_stacks_and_the_next_verdict_is_reached() -> None:
    """The timeout names the task that hangs and shows where."""
    with pytest.raises(RunFailed) as caught:
        verify(hanging, "mirrored-2", tier="exact", timeout=6)
    assert caught.value.root_cause.kind == "Hang"
    assert "last announced step 1" in str(caught.value)
    assert "in wait_for_godot" in caught.value.stacks["local:0"]
    assert verify(one_value, "mirrored-2", tier="exact")


def test_5_an_expected_error_that_never_came_fails() -> None:
    """A run that succeeds although its failure was demanded has failed, and so has one that fails in another way."""
    with Cluster(Topology(worker=1), preload=(), timeout=30) as cluster:
        cluster.expect("worker:0", error="LookupError")
        with pytest.raises(RunFailed, match=r"LookupError.*was expected and did not come"):
            cluster.run(int)
        cluster.expect("worker:0", error="LookupError", match="gone")
        with pytest.raises(RunFailed) as caught:
            cluster.run(int, "no number")
        assert {cause.kind for cause in caught.value.causes} == {"ValueError", "ExpectedFailureMissing"}
        cluster.expect("worker:*", error="ValueError", match="no number")
        assert cluster.run(int, "no number")["worker:0"].exit == 1


@pytest.mark.parametrize(
    ("name", "hardware", "needed"),
    [("tpu", "cpu", "a TPU"), ("mirrored-2:nccl", "cpu", "2 GPUs"), ("mirrored-2", "gpu", "a GPU")],
)
def test_9_missing_hardware_is_an_error_that_names_it(
    name: str, hardware: str, needed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs on a substitute: a strategy whose hardware is not there is refused before anything starts."""
    monkeypatch.setattr(observe, "gpus", lambda *_: ())
    monkeypatch.setattr(accelerators, "tpus", lambda *_: ())
    with pytest.raises(
        MissingHardware, match=f"{name} needs {needed}, and this machine has none; see `lockstep doctor`"
    ):
        verify(one_value, name, hardware=hardware)


def test_an_old_tensorflow_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason, and what to install."""
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "2.16.1")
    with pytest.raises(UsageError, match=r"TensorFlow 2\.16\.1 is refused.*install tensorflow>=2\.16\.2"):
        verify(one_value, "one_device")


def test_9_too_few_gpus_are_missing_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL wants a GPU for each replica, so one is not enough for two."""
    monkeypatch.setattr(observe, "gpus", lambda *_: ("GPU 0",))
    with pytest.raises(MissingHardware, match=r"needs 2 GPUs.*has 1"):
        check_hardware(strategy_case("mirrored-2:nccl"))
    check_hardware(strategy_case("mirrored-2", "gpu"))


def _fewer_replicas() -> StrategyCase:
    class Lying(StrategyCase):
        def build(self) -> Any:
            import tensorflow as tf

            return tf.distribute.MirroredStrategy(["CPU:0"])

    return Lying(name="mirrored-2", family=all_kinds()["mirrored"], devices=2)


def _alone() -> StrategyCase:
    class Lying(StrategyCase):
        def build(self) -> Any:
            import tensorflow as tf

            return tf.distribute.get_strategy()

    return Lying(name="multi_worker-2", family=all_kinds()["multi_worker"], workers=2)


def _two_alone() -> StrategyCase:
    class Lying(StrategyCase):
        @property
        def topology(self) -> Topology:
            return Topology(worker=2, devices="cpu:2")

        def build(self) -> Any:
            import tensorflow as tf

            return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    return Lying(name="multi_worker-2", family=all_kinds()["multi_worker"], workers=2)


def _one_server_left_out() -> StrategyCase:
    class Lying(StrategyCase):
        def build(self) -> Any:
            import tensorflow as tf

            spec = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec().as_dict()
            fewer = tf.train.ClusterSpec({**spec, "worker": spec["worker"][:1]})
            return tf.distribute.ParameterServerStrategy(
                tf.distribute.cluster_resolver.SimpleClusterResolver(
                    fewer, task_type="chief", task_id=0, rpc_layer="grpc"
                )
            )

    return Lying(name="parameter_server-2w1p", family=all_kinds()["parameter_server"], workers=2, ps=1)


@pytest.mark.parametrize(
    ("lying", "fragment"),
    [
        (_fewer_replicas, "should have 2 replicas in sync, TensorFlow sees 1"),
        # In the quick profile the one before it, and workers of the next.
        pytest.param(_alone, "should have 2 replicas in sync, TensorFlow sees 1", marks=pytest.mark.full),
        (_two_alone, "should have 2 workers, TensorFlow sees"),
        (_one_server_left_out, "should have 2 workers, TensorFlow sees 1"),
    ],
)
def test_11_a_run_that_is_smaller_than_its_name_fails(lying: Any, fragment: str) -> None:
    """TensorFlow itself is asked how many replicas and workers there are; training alone would have passed."""
    with pytest.raises(RunFailed) as caught:
        verify(one_value, lying(), tier="exact", timeout=30)
    assert caught.value.root_cause.kind == "RuntimeError"
    assert fragment in caught.value.root_cause.message


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"tier": "strict"}, "tier 'strict' is unknown; accepted are derived, exact"),
        ({"hardware": "cuda"}, "hardware 'cuda' is unknown; accepted are cpu, gpu, gpu-simulated, tpu"),
        ({"timeout": 0}, "timeout=0 is not a positive number of seconds"),
    ],
)
def test_options_that_do_not_exist_are_usage_errors(options: dict[str, Any], fragment: str) -> None:
    """The message says what is accepted."""
    with pytest.raises(UsageError, match=fragment):
        verify(one_value, "mirrored-2", **options)
