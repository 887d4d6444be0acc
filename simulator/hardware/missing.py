"""What is raised where a device is asked for that is not there."""

from __future__ import annotations

from simulator.errors import LockstepError

__all__ = ["HardwareMissing"]


class HardwareMissing(LockstepError):
    """Raised when a task is to compute on a device that this machine does not have; nothing has been started."""
