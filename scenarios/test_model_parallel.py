"""A model cut into two stages by hand, on two logical devices, has the gradients of one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenarios.programs import model_parallel
from simulator import Cluster, Topology

if TYPE_CHECKING:
    from scenarios.programs.model_parallel import Result, Schedule


def _train(devices: int, schedule: Schedule) -> Result:
    with Cluster(Topology(devices=f"cpu:{devices}")) as cluster:
        result: Result = cluster.run(model_parallel.train, devices, schedule)["local:0"].value
    return result


def _same(run: Result, reference: Result) -> bool:
    """Whether loss, gradients and variables are bit for bit the same."""
    pairs = [pair for name in ("gradients", "variables") for pair in zip(run[name], reference[name], strict=True)]
    return bool(run["loss"] == reference["loss"]) and all((ours == truth).all() for ours, truth in pairs)


@pytest.mark.parametrize("schedule", ["whole", "pipeline"])
def test_two_stages_are_exact(schedule: Schedule) -> None:
    """Gradients flow back over the cut, of a whole batch and of four microbatches, bit for bit as on one device."""
    run, reference = _train(2, schedule), _train(1, "whole")
    assert len({device.rpartition(":")[2] for device in run["devices"]}) == 2
    assert len({device.rpartition(":")[2] for device in reference["devices"]}) == 1
    assert all(abs(gradient).max() > 0 for gradient in reference["gradients"])
    assert _same(run, reference)


def test_a_pipeline_that_keeps_one_microbatch_is_caught() -> None:
    """Applying the last microbatch's gradient instead of the sum is seen."""
    assert not _same(_train(2, "pipeline_without_sum"), _train(1, "whole"))
