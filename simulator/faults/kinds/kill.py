"""Sudden death by SIGKILL, as from a crashed machine, an out-of-memory killer or a power cut."""

from __future__ import annotations

from typing import ClassVar

from simulator.faults.kinds._deaths import Death, kill_all
from simulator.faults.protocol import Effect, Scene


class Kill(Death, tag="kill", kw_only=True, frozen=True):
    """SIGKILL to the process group of each task, to all at once. Proof: each exit by SIGKILL."""

    cause: ClassVar[str] = "hard death"
    strikes_many: ClassVar[bool] = True

    def inject(self, scene: Scene) -> Effect:
        """Kill them, and wait until each one's exit was seen."""
        return kill_all(scene, comes_back=self.brings_back)


KIND = Kill
