"""A task that dies again and again, as one with a bad disk does, until its scheduler finds it healthy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.faults.kinds._deaths import Death, kill_all, start_again
from simulator.faults.kinds.kill import Kill
from simulator.faults.protocol import Effect, Scene


class CrashLoop(Kill, tag="crash_loop", kw_only=True, frozen=True):
    """Killed at the trigger, then `times - 1` more times as soon as it is up again. Proof: the incarnations.

    Attributes:
        times: how many deaths in all, at least 2.
        restart: from each death to the next start.
    """

    times: int | str = 3
    restart: str | None = "0s"

    repeats: ClassVar[tuple[str, ...]] = ("ended", "restarted", "deaths")
    cause: ClassVar[str] = "software"
    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"times": (2, 3)}
    strikes_many: ClassVar[bool] = False

    def measure(self, scene: Scene) -> Effect:
        """Go through the other rounds; the last restart is the undo."""
        deaths = 1
        for _ in range(int(self.times) - 1):
            Death.stay(self, scene)
            if scene.ending:
                break
            start_again(scene)
            kill_all(scene, comes_back=True)
            deaths += 1
        return {"deaths": deaths}


KIND = CrashLoop
