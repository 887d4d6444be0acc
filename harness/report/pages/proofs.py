"""Proofs as a page: for each strategy whether a step is right for every batch, and what that rests on."""

from __future__ import annotations

from collections.abc import Sequence

from harness.relations import Proof
from harness.report.templates import rendered

__all__ = ["proofs_page"]


def proofs_page(proofs: Sequence[Proof]) -> str:
    """Render the page."""
    return rendered("proofs.html", proofs=proofs)
