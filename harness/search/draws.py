"""Draws that depend on their seed only.

Hypothesis likes to draw constants that occur in the source of the modules which happen to be loaded. That finds errors
in code under test; but a search that is repeated by its seed, in a process with other modules, would have other plans.
"""

from __future__ import annotations

from typing import Any

from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

__all__ = ["BACKEND"]

BACKEND = "lockstep"
"""The name of these draws in `hypothesis.settings`."""


class _BySeedOnly(HypothesisProvider):
    """Hypothesis's own draws, but for those constants."""

    def _maybe_draw_constant(self, *_: Any, **__: Any) -> None:
        return None


AVAILABLE_PROVIDERS[BACKEND] = _BySeedOnly
