"""Where variables are assigned: a program that takes no gradients trains those that its replicas assign."""

from __future__ import annotations

import contextlib
from typing import Any

from harness.recording.assigned_values import assignments_heard
from harness.recording.watch.places import Places
from harness.recording.witness.protocol import WitnessState


def active(gathered: WitnessState) -> contextlib.AbstractContextManager[None]:
    """See which variables get values in this context, before they do, and at which lines between the steps."""
    places = Places()

    def hear(variable: Any) -> None:
        gathered.assigns(variable)
        if gathered.is_outermost:
            with gathered.looking("lines that assign"):
                _note(gathered, variable, places)

    return assignments_heard(hear)


def _note(gathered: WitnessState, variable: Any, places: Places) -> None:
    entry = gathered.registry.entry(variable) if gathered.registry.is_state(variable) else None
    if entry is None or (line := places.line()) is None:
        return
    after = gathered.number - (not gathered.has_step)
    noted, key = gathered.noted.assigned, (entry.name, line)
    if key in noted or gathered.registry.has_own_name(entry):
        first, _ = noted.pop(key, (after, after))
        noted[key] = first, after  # the latest line is the last one
