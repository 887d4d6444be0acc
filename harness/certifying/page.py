"""A certificate as one self-contained HTML page."""

from __future__ import annotations

from harness.certifying.certificate import Certificate
from simulator import UsageError

__all__ = ["certificate_page"]


def certificate_page(certificate: Certificate) -> str:
    """Render the page.

    Raises:
        UsageError: jinja2, of the extra `report`, is not installed.
    """
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise UsageError("HTML needs jinja2: pip install 'tf-lockstep[report]'") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("harness.report", "templates"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    slowest = max((trial.seconds_per_step or 0.0 for trial in certificate.trials), default=0.0)
    return environment.get_template("certificate.html").render(certificate=certificate, slowest=slowest or 1.0)
