"""The usual tutorial programs train consistently, and the mistakes that are usually made in them are caught."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

from harness import StrategyCase, Verdict, verify
from scenarios.programs import tutorials
from scenarios.programs.sharing import sharing
from simulator import Cluster, RunFailed, Topology, UsageError

CAUGHT = pytest.mark.strategies("multi_worker-2", full=("mirrored-2", "mirrored-3", "multi_worker-2x2"))


def _broken(verdict: Verdict) -> set[str]:
    return {finding.law for finding in verdict.findings}


# With the Keras of old versions only.
OLD_KERAS = pytest.mark.known_issue(
    "keras3-metrics-not-aggregated", "keras3-metrics-earlier-batches", "keras3-gradients-not-reduced"
)


@pytest.mark.strategies("multi_worker-2", full=("mirrored-2", "mirrored-3", "multi_worker-2x2"))
@pytest.mark.parametrize(
    "program",
    [
        pytest.param("custom_training", marks=OLD_KERAS),
        "dataset_function",
        pytest.param("text_classification", marks=pytest.mark.full),
    ],
)
def test_right_programs_are_consistent(strategy: StrategyCase, program: str) -> None:
    """The tutorial "Custom training", input from a dataset function, and text classification with an embedding."""
    assert verify(getattr(tutorials, program), strategy)


@pytest.mark.strategies("mirrored-2", full=("multi_worker-2",))
@pytest.mark.parametrize(("dataset", "file"), [("mnist", "mnist.npz"), ("cifar10", "cifar-10-batches-py-target")])
def test_the_usual_image_datasets(strategy: StrategyCase, dataset: Literal["mnist", "cifar10"], file: str) -> None:
    """MNIST and CIFAR-10 through Keras's loaders, where they have been downloaded before; tests download nothing."""
    home = Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser()
    if not (home / "datasets" / file).exists():
        pytest.skip(f"{dataset} is not on this machine; keras.datasets.{dataset}.load_data() fetches it")
    assert verify(tutorials.make_images(dataset), strategy)


@pytest.mark.full  # in the quick profile test_batch_norm has a program like it
@pytest.mark.strategies("mirrored-2", "multi_worker-2", "mirrored-3", "multi_worker-2x2")
def test_synchronized_batch_normalization_is_consistent(strategy: StrategyCase) -> None:
    """BatchNormalization(synchronized=True) uses the statistics of the global batch."""
    assert verify(tutorials.batch_normalization_synchronized, strategy)


@pytest.mark.full  # in the quick profile test_training fits such a model
@pytest.mark.loop("tf_keras_fit")
@pytest.mark.strategies("multi_worker-2")
def test_multi_worker_training_with_keras(strategy: StrategyCase) -> None:
    """The tutorial "Multi-worker training with Keras", with tf_keras."""
    assert verify(tutorials.multi_worker_with_keras, strategy)


@pytest.mark.full  # in the quick profile test_training coordinates such a model
@pytest.mark.strategies("parameter_server-2w1p", "parameter_server-2w2p:min_size")
def test_parameter_server_training(strategy: StrategyCase) -> None:
    """The tutorial "Parameter server training", with a custom loop."""
    assert verify(tutorials.parameter_server_training, strategy)


@CAUGHT
def test_mean_then_sum_is_caught(strategy: StrategyCase) -> None:
    """Averaging over a replica's own batch and then summing over replicas trains with R times the loss."""
    verdict = verify(sharing(tutorials.mean_then_sum, tutorials.dataset_function), strategy)
    assert not verdict
    assert {"loss_matches_reference", "gradients_match_reference", "variables_match_reference"} <= _broken(verdict)
    assert verdict.explanation is not None
    assert verdict.explanation.rule == "loss_times_replicas"


@CAUGHT
def test_a_global_batch_for_each_replica_is_caught(strategy: StrategyCase) -> None:
    """A dataset function that batches by the global size gives every replica a whole global batch."""
    verdict = verify(sharing(tutorials.dataset_function_global_batch, tutorials.dataset_function), strategy)
    assert not verdict
    assert "examples_match_reference" in _broken(verdict)


@pytest.mark.strategies("mirrored-2", full=("multi_worker-2", "mirrored-3", "multi_worker-2x2"))
def test_batch_normalization_that_is_expected_to_synchronize_is_caught(strategy: StrategyCase) -> None:
    """Without synchronized=True each replica has its own statistics: a condition, by which all else is right.

    The moving statistics, which the program reports, are a finding: copies differ, and the first is not their mean.
    """
    verdict = verify(tutorials.batch_normalization_local, strategy)
    assert "own_statistics" in {condition.code for condition in verdict.conditions}
    assert _broken(verdict) == {"replicas_agree", "variables_match_reference"}
    assert all("batch_normalization/moving_" in finding.text for finding in verdict.findings)


def test_parameter_servers_without_a_chief_hang_and_are_shown_where() -> None:
    """A worker that takes itself for the coordinator waits for ever; the run ends in time and shows the stack."""
    with Cluster(Topology(worker=2), timeout=6) as cluster, pytest.raises(RunFailed) as failure:
        cluster.run(tutorials.parameter_server_without_chief)
    assert {cause.kind for cause in failure.value.causes} == {"Hang"}
    assert "parameter_server_strategy_v2.py" in failure.value.stacks["worker:0"]


def test_a_cluster_of_parameter_servers_without_a_chief_is_refused() -> None:
    """Lockstep's own cluster does not start one: the error says that nobody would coordinate."""
    with Cluster(Topology(worker=1, ps=1)) as cluster, pytest.raises(UsageError, match="add chief=1"):
        cluster.run(tutorials.parameter_server_without_chief)
