"""Where variables are assigned: a program that takes no gradients trains those that its replicas assign."""

from __future__ import annotations

import contextlib

from harness.recording.assigned_values import assignments_heard
from harness.recording.witness.protocol import WitnessState


def active(gathered: WitnessState) -> contextlib.AbstractContextManager[None]:
    """See which variables get values in this context, before they do."""
    return assignments_heard(gathered.assigns)
