"""The state of a random generator is a sign of equal draws only where something is drawn from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.judging.explain.identical_random_streams import _same_state

_NAME = "dropout/seed_generator_state"


@pytest.mark.parametrize(("states", "named"), [([1, 2, 3], True), ([1, 1, 1], False)])
def test_a_state_that_no_step_changes_says_nothing(states: list[int], named: bool) -> None:
    """As that of a recurrent layer without dropout."""
    held = {step: [np.array([state, 0])] * 2 for step, state in enumerate(states, start=1)}
    view: Any = SimpleNamespace(
        replicas=2,
        steps=lambda observable: sorted(held),
        names=lambda observable, step: [_NAME],
        copies=lambda step, name: held[step],
        wrong=lambda observable, step: [],
    )
    assert (_same_state(view, 1) is not None) is named
