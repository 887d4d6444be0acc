"""The templates of pages, and what they may call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from harness.judging.diagnostics import Diagnostic, diagnostic_text
from harness.judging.resolution import Resolution
from harness.report.templates._curve import curve
from simulator.agent.places import place

if TYPE_CHECKING:
    import jinja2

__all__ = ["rendered"]

# What is shown is the darker the more of its bound it has used: at a thousandth, a hundredth, a tenth.
_SHADES = (1e-3, 1e-2, 1e-1)


def rendered(name: str, *, again: str = "", **context: Any) -> str:
    """The page of a template; whatever is put into it stays text.

    Args:
        name: of the template.
        again: the command that makes the page once more.
        context: what the template shows.
    """
    return _environment().get_template(name).render(again=again, **context)


def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("harness.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"curve": curve, "diagnostic": _diagnostic, "place": place}
    environment.globals |= {"resolution": _resolution, "shade": _shade, "short": _short}
    return environment


def _diagnostic(verdict: Mapping[str, Any]) -> str | None:
    """As a terminal shows it; None of what is consistent, or was saved before there were diagnostics."""
    found = verdict.get("diagnostic")
    return None if found is None else diagnostic_text(msgspec.convert(found, Diagnostic))


def _shade(ratio: Any) -> int:
    """From 0, exact or without numbers, to 4."""
    if not isinstance(ratio, int | float) or ratio <= 0 or not math.isfinite(ratio):
        return 0
    return 1 + sum(ratio >= least for least in _SHADES)


def _short(number: Any) -> str:
    """With as many digits as people read; what is no number as it is."""
    return f"{number:.6g}" if isinstance(number, int | float) else str(number)


def _resolution(verdict: Mapping[str, Any]) -> dict[str, str]:
    """By observable how small an error would have been found, in words."""
    return {name: str(found) for name, found in msgspec.convert(verdict["resolution"], dict[str, Resolution]).items()}
