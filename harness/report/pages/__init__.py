"""Self-contained HTML pages: a matrix whose cells open their verdicts, verified runs, and proofs."""

from __future__ import annotations

from harness.report.pages.matrix import matrix_page
from harness.report.pages.proofs import proofs_page
from harness.report.pages.verified import Verified, verified_page

__all__ = ["Verified", "matrix_page", "proofs_page", "verified_page"]
