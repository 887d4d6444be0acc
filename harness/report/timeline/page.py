"""Timelines as one self-contained HTML page, and one of them as an SVG file."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.templates import rendered
from harness.report.timeline.drawing import draw
from harness.report.timeline.model import Timeline

__all__ = ["timeline_page", "timeline_svg"]


def timeline_page(timelines: Sequence[Timeline]) -> str:
    """Render the page: a picture for each run, and the tables of its faults and links."""
    drawn = [(timeline, draw(timeline)) for timeline in timelines]
    return rendered("timeline.html", drawn=drawn)


def timeline_svg(timeline: Timeline) -> str:
    """Render the picture alone, as a file that carries its own styles."""
    return rendered("timeline.svg.j2", drawing=draw(timeline), alone=True) + "\n"
