"""The rule knows which variable had what another one begins a resumed part with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.evidence.trace import Array, ClientTrace, Header, RunTrace, SeenVariable, Start
from harness.judging.explain import state_of_another_variable

_TRUTH = {"w": [1.0, 2.0], "b": [0.5], "mean": [0.75, 1.5], "low": [0.25], "slot": [0.0, 0.0]}


def _run(values: dict[str, list[float]]) -> RunTrace:
    seen = tuple(
        SeenVariable(name, "copies", (Array.of(np.asarray(each, np.float32)),)) for name, each in values.items()
    )
    return RunTrace((ClientTrace(Header("local:0", 1, "mirrored-2", 2, 2, 1, 0, {}), start=Start(0.0, seen)),))


@pytest.mark.parametrize(
    ("begun", "said"),
    [
        ({"w": [0.75, 1.5], "b": [0.25]}, "Killed, with 'w' as 'mean' was, 'b' as 'low' was."),
        ({"w": [0.75, 1.5], "mean": [1.0, 2.0]}, "Killed, with 'w' as 'mean' was, 'mean' as 'w' was."),
        ({}, None),  # as it should
        ({"w": [0.75, 1.5], "b": [0.7]}, None),  # of none
        ({"w": [0.0, 0.0]}, None),  # as many are
        ({"b": [0.25]}, None),  # by accident
        ({"w": [0.75, 1.25]}, None),
    ],
)
def test_the_variable_that_had_it_is_named(
    begun: dict[str, list[float]], said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where all that begin wrong have another one's."""
    case: Any = SimpleNamespace(run=_run(_TRUTH | begun), reference=_run(_TRUTH))
    found: Any = SimpleNamespace(
        found=SimpleNamespace(in_epochs=False), where="Killed", view=SimpleNamespace(case=case)
    )
    monkeypatch.setattr(state_of_another_variable, "resumption_of", lambda view: found)
    told = [each.text for each in state_of_another_variable._attempts(found.view) if each is not None]
    assert told == ([] if said is None else [said])
