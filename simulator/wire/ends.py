"""How a forkserver says that a process has ended: its exit code, and when that was seen there."""

from __future__ import annotations

import struct

__all__ = ["STAMPED"]

# The exit code as `multiprocess` writes it, and seconds of CLOCK_MONOTONIC.
STAMPED = struct.Struct("qd")
