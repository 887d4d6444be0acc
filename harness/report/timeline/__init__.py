"""The timeline of a run, read from its journal: as text, as data, as a page, and as a trace for Perfetto."""

from harness.report.timeline.drawing import timeline_page, timeline_svg
from harness.report.timeline.model import FaultRow, Life, LinkCondition, Mark, Save, Sighting, Timeline
from harness.report.timeline.read import journals, read_timeline, read_timelines, timeline_of
from harness.report.timeline.recovery import Recovery, recovery_of
from harness.report.timeline.text import as_data, lines
from harness.report.timeline.trace import trace_json

__all__ = [
    "FaultRow",
    "Life",
    "LinkCondition",
    "Mark",
    "Recovery",
    "Save",
    "Sighting",
    "Timeline",
    "as_data",
    "journals",
    "lines",
    "read_timeline",
    "read_timelines",
    "recovery_of",
    "timeline_of",
    "timeline_page",
    "timeline_svg",
    "trace_json",
]
