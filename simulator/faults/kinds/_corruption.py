"""What the kinds share that change a number in one task: which number, and the agent's report of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from simulator.errors import UsageError
from simulator.faults.protocol import Effect, NoEffect, Scene, TaskFault

_TARGETS = ("gradient", "reduction", "variable")


class Corruption(TaskFault, kw_only=True, frozen=True):
    """One number of a variable, a gradient or a reduction becomes another in one step on one replica of the task.

    A variable is changed after step `step`. A gradient is changed in step `step` itself, as the result of
    `tf.GradientTape.gradient`; that needs a hook in the program (a `tf.numpy_function`), which XLA cannot compile. So
    is the first tensor of a reduction, as the replica gets it from `ReplicaContext.all_reduce`.
    Proof: the agent reports the number before and after.

    Attributes:
        target: `gradient`, `reduction` or `variable`.
        name: pattern of the variable's name; the first that matches, trainable ones first. A reduction has none.
        element: flat index of the number; drawn if not given, modulo the size.
        replica: which of the task's own replicas, from 0.
    """

    target: str = "gradient"
    name: str = "*"
    element: int | str | None = None
    replica: int | str = 0

    in_task: ClassVar[bool] = True
    anywhere: ClassVar[bool] = True
    drawn: ClassVar[Mapping[str, str]] = {"element": "0..4294967295"}

    repeats: ClassVar[tuple[str, ...]] = ("changed",)
    unsearched: ClassVar[str] = "changes numbers by itself, which every law notices"

    @property
    def gate(self) -> str | None:
        """What is changed in its step has the task stop before that, at the end of the step before."""
        if self.target != "variable" and self.trigger == "step" and isinstance(self.step, int):
            return f"step:{self.step - 1}"
        return super().gate

    @property
    def hooks(self) -> tuple[str, ...]:
        """That of a gradient or a reduction."""
        return (*super().hooks, *((f"{self.target}:{self.name}",) if self.target != "variable" else ()))

    @property
    def lasts(self) -> bool:
        """A number is changed in a moment."""
        return False

    def check(self) -> None:
        """The target is one of these, and there is something to change."""
        if self.target not in _TARGETS:
            raise UsageError(f"target={self.target!r} is unknown; it is {', '.join(_TARGETS)}")
        if self.step == 0:
            raise UsageError(f"there is no {self.target} before the function is called; steps are counted from 1")

    def change(self) -> dict[str, Any]:
        """How the agent changes the number."""
        raise NotImplementedError

    def inject(self, scene: Scene) -> Effect:
        """Tell each agent."""
        for task in scene.tasks:
            scene.act(
                task,
                f"corrupt_{self.target}",
                pattern=self.name,
                element=int(self.element or 0),
                replica=int(self.replica),
                **self.change(),
            )
        return {}

    def measure(self, scene: Scene) -> Effect:
        """Wait for each agent's report."""
        scene.wait(
            lambda: all(process.acted.get(scene.name) or process.finished for process in scene.processes),
            f"a {self.target} {self.name}",
            120.0,
        )
        seen = {process.name: process.acted.get(scene.name) for process in scene.processes}
        for task, effect in seen.items():
            if not effect or effect.get("problem") or effect["before"] == effect["after"]:
                why = effect.get("problem", "it has the same value as before") if effect else "it never came by"
                raise NoEffect(f"no {self.target} {self.name} was changed in {task}: {why}")
        return {"changed": seen}
