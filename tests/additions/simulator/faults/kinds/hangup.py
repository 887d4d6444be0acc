"""The end of a session: SIGHUP, as from a terminal or a supervisor that has gone."""

from __future__ import annotations

import signal
from typing import ClassVar

from simulator.faults.kinds._deaths import Death, alive, announce, ends
from simulator.faults.protocol import Effect, Scene


class Hangup(Death, tag="hangup", kw_only=True, frozen=True):
    """SIGHUP to the process group of each task. Proof: each process ends."""

    cause: ClassVar[str] = "maintenance"
    strikes_many: ClassVar[bool] = True

    def inject(self, scene: Scene) -> Effect:
        """Send it, and wait until each one's exit was seen."""
        alive(scene)
        tasks = announce(scene, comes_back=self.brings_back)
        for task in tasks:
            task.signal_group(signal.SIGHUP)
        return ends(scene, tasks, "the exit after SIGHUP")


KIND = Hangup
