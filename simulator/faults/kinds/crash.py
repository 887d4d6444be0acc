"""Death from within: an exception, a segmentation fault, or an exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.errors import UsageError
from simulator.faults.kinds._deaths import Death, announce, ends
from simulator.faults.protocol import Effect, NoEffect, Scene

_HOW = ("exception", "segfault", "exit")


class Crash(Death, tag="crash", kw_only=True, frozen=True):
    """The agent ends the program at its gate. Proof: the exit code or the signal.

    Attributes:
        how: `exception` raises `InjectedCrash` where the step was announced; `segfault` is a real SIGSEGV; `exit`
            leaves at once with `code`.
        code: the exit code, from 1 to 255, of `exit`.
    """

    how: str = "exception"
    code: int | str = 1

    in_task: ClassVar[bool] = True

    cause: ClassVar[str] = "software"
    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"how": ("exception", "exit", "segfault")}

    def check(self) -> None:
        """One of the three ways, and an exit code only where it leaves with one."""
        if self.how not in _HOW:
            raise UsageError(f"how={self.how!r} is unknown to crash; it is one of {', '.join(_HOW)}")
        if self.code != 1 and self.how != "exit":
            raise UsageError(f"code={self.code} is the exit code of how=exit, and this is how={self.how}")

    def inject(self, scene: Scene) -> Effect:
        """Tell each agent."""
        announce(scene, comes_back=self.brings_back)
        for name in scene.tasks:
            scene.act(name, "crash", how=self.how, code=self.code)
        return {}

    def measure(self, scene: Scene) -> Effect:
        """Wait for the exit of that kind."""
        effect = ends(scene, scene.processes, f"the exit after a crash by {self.how}")
        wanted = {"exception": 1, "segfault": "SIGSEGV", "exit": self.code}[self.how]
        others = {name: how for name, how in effect["ended"].items() if how != wanted}
        if others:
            raise NoEffect(f"ended otherwise than by {self.how}: {others}")
        return effect


KIND = Crash
