"""A step of which every operation is watched: what it was given, what it gave, and the line that made it."""

from __future__ import annotations

from harness.recording.watch._watch import Watch, WatchDone, WatchOrder
from harness.recording.watch.by_hand import ByHand

__all__ = ["ByHand", "Watch", "WatchDone", "WatchOrder"]
