"""A certificate as one self-contained HTML page."""

from __future__ import annotations

from harness.certifying.certificate import Certificate
from harness.report.templates import rendered

__all__ = ["certificate_page"]


def certificate_page(certificate: Certificate) -> str:
    """Render the page."""
    slowest = max((trial.seconds_per_step or 0.0 for trial in certificate.trials), default=0.0)
    return rendered("certificate.html", certificate=certificate, slowest=slowest or 1.0)
