"""Every usual way to reduce a loss trains as on one device, or as documented; the usual mistakes are caught."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version

import pytest
from packaging.version import Version

from harness import StrategyCase, Verdict, verify
from harness.verify import Tier
from scenarios.programs import fit_hinge, fit_masked, loss_formulas, loss_table, models, reductions
from scenarios.programs.sharing import sharing
from simulator import Cluster

# In one process the quick profile has the truth table, below.
REPLICATED = pytest.mark.strategies(
    "multi_worker-2", full=("mirrored-1", "mirrored-3", "central_storage-2", "multi_worker-2x2")
)
TRAINING_LAWS = {"loss_matches_reference", "gradients_match_reference", "variables_match_reference"}


def _broken(verdict: Verdict) -> set[str]:
    return {finding.law for finding in verdict.findings}


def _tier(form: reductions.Form, strategy: StrategyCase) -> Tier:
    """A third of a penalty is no float32."""
    return "derived" if form == "regularizer" and strategy.replicas == 3 else "exact"


_FULL = ("sample_weight", "all_reduce_mean", "sum", "class_weight", "add_loss")


@REPLICATED
@pytest.mark.parametrize(
    "form", ["per_example", "mask", *(pytest.param(form, marks=pytest.mark.full) for form in _FULL)]
)
def test_a_custom_loop_is_exact(strategy: StrategyCase, form: reductions.Form) -> None:
    """Batches of 16, 16, 4 and 1 train bit for bit as on one device, also where a replica gets nothing."""
    assert verify(reductions.make(form), strategy, tier=_tier(form, strategy))


@REPLICATED
def test_a_penalty_counts_once(strategy: StrategyCase) -> None:
    """Divided by the number of replicas and summed up over them, a regularizer's loss is that of one device."""
    assert verify(reductions.make("regularizer"), strategy, tier=_tier("regularizer", strategy))


@pytest.mark.full
@pytest.mark.known_issue("tf-hierarchical-copy-odd")
@pytest.mark.strategies("mirrored-3:hierarchical_copy")
def test_hierarchical_copy_among_three(strategy: StrategyCase) -> None:
    """A right loop, whose third replica TensorFlow leaves out."""
    assert verify(reductions.make("per_example", "tf_keras"), strategy, explain=True)


@REPLICATED
@pytest.mark.parametrize("flavour", ["keras", pytest.param("tf_keras", marks=pytest.mark.full)])
@pytest.mark.parametrize("form", ["per_example", pytest.param("regularizer", marks=pytest.mark.full)])
def test_a_custom_loop_around_keras_is_exact(
    strategy: StrategyCase, form: reductions.Form, flavour: models.Flavour
) -> None:
    """A Keras model and optimizer change nothing about that."""
    assert verify(reductions.make(form, flavour), strategy, tier=_tier(form, strategy))


@pytest.mark.strategies("mirrored-2", full=("mirrored-3", "central_storage-2", "multi_worker-2"))
@pytest.mark.parametrize(
    ("form", "right", "laws"),
    [
        # In the quick profile test_tutorials has a mean of the replica.
        pytest.param("local_mean", "all_reduce_mean", TRAINING_LAWS, marks=pytest.mark.full),
        ("local_mask", "mask", TRAINING_LAWS),
        pytest.param("regularizer_per_replica", "regularizer", TRAINING_LAWS, marks=pytest.mark.full),
        ("divided_twice", "per_example", {"loss_matches_reference"}),
    ],
)
def test_mistakes_are_caught(
    strategy: StrategyCase, form: reductions.Form, right: reductions.Form, laws: set[str]
) -> None:
    """A local mean, a local count of valid examples, a penalty for each replica, and a global mean divided by R
    again.
    """
    verdict = verify(sharing(reductions.make(form), reductions.make(right)), strategy, tier="exact")
    assert not verdict
    # Workers that report their own part of a wrong loss disagree as well.
    assert _broken(verdict) - {"clients_agree"} == laws


@pytest.mark.strategies("mirrored-2", full=("mirrored-4", "central_storage-2", "multi_worker-2"))
@pytest.mark.parametrize(
    "loop", ["keras3_fit:scalar_loss", pytest.param("tf_keras_fit:scalar_loss", marks=pytest.mark.full)]
)
def test_fit_with_a_scalar_loss(strategy: StrategyCase, loop: str) -> None:
    """A loss function that returns the mean of its batch trains as one that returns a loss for each example."""
    flavour: models.Flavour = "tf_keras" if loop.startswith("tf_keras") else "keras"
    assert verify(fit_hinge.make(flavour, scalar=True), strategy, tier="exact")


@pytest.mark.strategies("mirrored-2", full=("mirrored-3",))
@pytest.mark.parametrize(
    ("loop", "hidden"),
    [
        ("keras3_fit:masked", 1),
        # In the quick profile each Keras once.
        pytest.param("tf_keras_fit:masked", 1, marks=pytest.mark.full),
        pytest.param("keras3_fit:masked_replica", 6, marks=pytest.mark.full),
        ("tf_keras_fit:masked_replica", 6),
    ],
)
def test_fit_with_a_mask(strategy: StrategyCase, loop: str, hidden: int) -> None:
    """One example of each twelve is padding, or a whole replica's are."""
    flavour: models.Flavour = "tf_keras" if loop.startswith("tf_keras") else "keras"
    assert verify(fit_masked.make(flavour, hidden=hidden), strategy)


@pytest.mark.strategies(
    "mirrored-2",
    full=("mirrored-1", "mirrored-3", "multi_worker-2", "central_storage-2", "multi_worker-2x2"),
)
@pytest.mark.skipif(
    Version(version("keras")) < Version("3.8"), reason="before Keras 3.8 losses are not divided by the replicas"
)
def test_the_truth_table_holds(strategy: StrategyCase, report_row: Callable[[str, Mapping[str, object]], None]) -> None:
    """Loss and gradient of every row are what its closed form predicts, for an even, an uneven and a single-example
    batch.
    """
    with Cluster(strategy.topology) as cluster:
        measured = cluster.run(loss_table.measure, strategy)[strategy.clients[0]].value
    wrong = []
    for row in loss_table.ROWS:
        for flavour in row.flavours:
            for batch in loss_formulas.BATCHES:
                predicted = row.formula(loss_formulas.shares(batch, strategy.replicas))
                numbers = measured.get((row.loop, flavour, row.reduction, batch))
                if numbers is None:
                    assert (row.loop, flavour, strategy.kind) == ("fit", "keras", "multi_worker")
                elif not all(map(loss_table.agrees, numbers, predicted)):
                    wrong.append((row.loop, flavour, row.reduction, batch, numbers, tuple(map(str, predicted))))
    assert not wrong
    for row in loss_table.ROWS:
        batches = {
            f"batch {batch}": loss_table.described(row, batch, strategy.replicas) for batch in loss_formulas.BATCHES
        }
        for flavour in row.flavours:
            if (row.loop, flavour, row.reduction, loss_formulas.BATCHES[0]) in measured:
                place = {"loop": row.loop, "reduction": row.reduction, "Keras": flavour, "strategy": strategy.name}
                report_row("loss / gradient, as multiples of one device", place | batches)
