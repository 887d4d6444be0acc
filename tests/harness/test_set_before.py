"""What replicas compute before the first step is not judged, and the verdict says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.evidence.steps import HeldVariable, Segment, StepEvidence
from harness.evidence.steps.store import EvidenceWriter
from harness.judging.per_replica import set_before_steps
from tests.harness._loop import LOOP, Verified


@pytest.mark.parametrize(("calls", "changed", "names"), [(1, True, "'w'"), (1, False, None), (0, True, None)])
def test_a_variable_that_a_call_before_the_first_step_changes_is_told(
    tmp_path: Path, calls: int, changed: bool, names: str | None
) -> None:
    """What the first step begins with is not what the first call began with."""
    writer = EvidenceWriter(tmp_path / "steps")
    for index in range(1, calls + 3):
        writer.begin(index)
        value = np.float32(index if changed else 1.0)
        held = HeldVariable("w", 0, "copies", (writer.put(value),))
        writer.publish(StepEvidence(index, (held,), trained=index > calls))
    found = set_before_steps(Segment((str(tmp_path / "steps"),)))
    assert [each.text for each in found] == ([f"what replicas set before the first step: {names}"] if names else [])


@pytest.mark.full
@pytest.mark.parametrize("sets", [True, False])
def test_a_script_that_sets_what_it_trains_from_examples_has_a_condition(sets: bool, verified: Verified) -> None:
    """As layers do that are initialized by the first batch; each replica has but its own part of that."""
    first = "first = next(iter(strategy.experimental_distribute_dataset(dataset)))\n"
    first += "strategy.run(lambda x, y: w.assign(tf.reduce_mean(x, axis=0)), args=first)\n"
    loop = LOOP.replace("for _ in range(int(sys.argv[1])):", f"{first if sets else ''}for _ in range(1):")
    loop = loop.replace('name="w")', 'name="w", aggregation=tf.VariableAggregation.MEAN)')
    verdict = verified(loop, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == "consistent", str(verdict)
    assert [each.code for each in verdict.conditions] == (["set_before_steps"] if sets else [])
