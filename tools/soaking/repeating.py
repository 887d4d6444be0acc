"""Whether two runs of one case of the soak had the same history."""

from __future__ import annotations

from harness.report.history import first_difference, history
from harness.report.timeline import read_timeline
from tools.soaking.checking import Wrong
from tools.soaking.running import Seen


def other_history(one: Seen, other: Seen) -> list[Wrong]:
    """Where they part, if they do."""
    first, second = (seen.folder / "0" / "journal.jsonl" for seen in (one, other))
    difference = first_difference(history(first), history(second), read_timeline(first))
    return [] if difference is None else [Wrong("same history", str(difference))]
