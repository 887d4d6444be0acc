"""Proofs as a page: for each strategy whether a step is right for every batch, and what that rests on."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.report.templates import rendered

__all__ = ["Proved", "proofs_page"]


class Proved(msgspec.Struct, frozen=True):
    """What came of one strategy.

    Attributes:
        program: whose step it is.
        strategy: under which strategy.
        status: of the proof.
        text: all of it, as a terminal shows it.
    """

    program: str
    strategy: str
    status: str
    text: str


def proofs_page(proofs: Sequence[Proved]) -> str:
    """Render the page."""
    return rendered("proofs.html", proofs=proofs)
