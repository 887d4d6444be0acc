"""The rule knows after which step a killed run had the variables that its resumed part begins with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.evidence.trace import Array, ClientTrace, Header, RunTrace, SeenVariable, Start
from harness.judging.explain import state_of_another_step

_HELD = {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.3}


@pytest.mark.parametrize(
    ("begun", "resumed_at", "said"),
    [
        (0.3, 2, "had after step 4, and does steps 3 to 4 again"),
        (0.2, 1, "had after step 2, and does step 2 again"),
        (0.1, 3, "had after step 1: what steps 2 to 3 made is lost"),
        (0.3, 3, None),  # as it should
        (0.7, 2, None),  # of no step
        (None, 2, None),
    ],
)
def test_the_step_of_what_a_part_begins_with(
    begun: float | None, resumed_at: int, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several steps after which it was the same the last one."""
    held = {
        step: {"w": SimpleNamespace(array=np.float32(value), dtype=np.dtype("float32"))}
        for step, value in _HELD.items()
    }
    seen = () if begun is None else (SeenVariable("w", "copies", (Array.of(np.float32(begun)),)),)
    client = ClientTrace(Header("local:0", 1, "mirrored-2", 2, 2, 1, 0, {}), start=Start(0.0, seen))
    found: Any = SimpleNamespace(
        found=SimpleNamespace(in_epochs=False, resumed_at=resumed_at),
        where="Killed",
        before=held,
        view=SimpleNamespace(case=SimpleNamespace(run=RunTrace((client,)))),
    )
    monkeypatch.setattr(state_of_another_step, "resumption_of", lambda view: found)
    told = [each.text for each in state_of_another_step._attempts(found.view) if each is not None]
    assert told == ([] if said is None else [f"Killed, with the variables that it {said}."])
