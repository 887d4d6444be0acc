"""Makes watched steps without TensorFlow: one little program, computed in NumPy on one device and on replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from harness.evidence.trace import Array
from harness.evidence.watched_step import (
    OUTER,
    REPLICA,
    Frame,
    Op,
    TensorValue,
    WatchedStep,
    WatchedVariable,
    digest_of,
)


class Steps:
    """What a little program is written with: each call is one operation in every replica.

    Args:
        shards: rows of the batch by replica; one on one device.
    """

    def __init__(self, shards: Sequence[np.ndarray[Any, Any]], whole: np.ndarray[Any, Any]) -> None:
        self.replicas = len(shards)
        self._is_reference = len(shards) == 1 and len(shards[0]) == len(whole)
        self.frames: list[Frame] = []
        self.ops: list[Op] = []
        self.values: list[TensorValue] = []
        self.variables: list[WatchedVariable] = []
        self.targets: list[int] = []
        self._arrays: dict[int, np.ndarray[Any, Any]] = {}
        self._tensors = 0
        self.batch = [self._given(index, shard) for index, shard in enumerate(shards)]

    def _given(self, index: int, value: np.ndarray[Any, Any]) -> int:
        return self._op("IteratorGetNext", 1, OUTER, 0, (), value) if index >= 0 else 0

    def _op(self, kind: str, line: int, zone: str, index: int, inputs: Sequence[int], value: Any) -> int:
        frame = Frame("train.py", line, "step", own=True)
        if frame not in self.frames:
            self.frames.append(frame)
        number = self.frames.index(frame)
        outputs: tuple[int, ...] = ()
        if value is not None:
            self._tensors += 1
            outputs = (self._tensors,)
            array = np.asarray(value)
            self._arrays[self._tensors] = array
            kept = Array.of(array)
            self.values.append(TensorValue(self._tensors, kept, digest_of(kept)))
        self.ops.append(Op(len(self.ops) + 1, kind, "", zone, index, (number,), number, tuple(inputs), outputs))
        return self._tensors if outputs else 0

    def each(
        self, kind: str, line: int, compute: Callable[..., Any], *inputs: Sequence[int], name: str = ""
    ) -> list[int]:
        """One operation in each replica, or in the first if there are fewer inputs; `name` is the one in a graph."""
        found = []
        for index, given in enumerate(zip(*inputs, strict=True)):
            found.append(self._op(kind, line, REPLICA, index, given, compute(*(self._arrays[one] for one in given))))
            self.ops[-1] = msgspec.structs.replace(
                self.ops[-1], name=name, differentiates=name.startswith("gradient_tape/")
            )
        return found

    def constant(self, line: int, value: Any) -> list[int]:
        """The same constant in each replica."""
        return [self._op("Const", line, REPLICA, index, (), np.float32(value)) for index in range(self.replicas)]

    def read(self, line: int, name: str, values: Sequence[Any]) -> list[int]:
        """The value of each replica's copy of a variable."""
        found = []
        for index, value in enumerate(values):
            found.append(self._op("ReadVariableOp", line, REPLICA, index, (), value))
            self.ops[-1] = self._of_variable(self.ops[-1], name)
        return found

    def value(self, tensor: int) -> Any:
        """What a tensor holds."""
        return self._arrays[tensor]

    def summed(self, line: int, parts: Sequence[int], factor: float = 1.0) -> list[int]:
        """A sum over replicas, which one device does not have."""
        if self._is_reference:
            return list(parts)
        total = factor * np.sum([self._arrays[part] for part in parts], axis=0, dtype=np.float32)
        tensor = self._op("CollectiveReduceV2", line, OUTER, 0, parts, total.astype(np.float32))
        return [tensor] * self.replicas

    def gathered(self, line: int, parts: Sequence[int]) -> list[int]:
        """The rows of all replicas, one replica's after another's, which one device has already."""
        if self._is_reference:
            return list(parts)
        rows = np.concatenate([self._arrays[part] for part in parts])
        return [self._op("CollectiveGatherV2", line, OUTER, 0, parts, rows)] * self.replicas

    def called(self, line: int, result: int) -> None:
        """The end of a function that gives a value which was computed in it."""
        self._op("__inference_step_1", line, OUTER, 0, self.batch, self._arrays[result])

    def assign(
        self, line: int, name: str, values: Sequence[int], kind: str = "mirrored", aggregation: str = "NONE"
    ) -> None:
        """Change each replica's copy of a variable."""
        for index, value in enumerate(values):
            self._op("AssignSubVariableOp", line, REPLICA, index, (0, value), None)
            self.ops[-1] = self._of_variable(self.ops[-1], name)
        self.variables.append(WatchedVariable(name, kind, aggregation))

    @staticmethod
    def _of_variable(op: Op, name: str) -> Op:
        return msgspec.structs.replace(op, variable=name)

    def watched(self, step: int) -> WatchedStep:
        """All of it, as a client would have left it."""
        return WatchedStep(
            task="local:0",
            step=step,
            replicas=self.replicas,
            frames=tuple(self.frames),
            ops=tuple(self.ops),
            values=tuple(self.values),
            variables=tuple(self.variables),
            targets=tuple(self.targets),
        )


def watched(
    program: Callable[[Steps], None], whole: np.ndarray[Any, Any], *shards: np.ndarray[Any, Any], step: int = 1
) -> tuple[WatchedStep, WatchedStep]:
    """A program on one device with the whole batch, and on replicas with a shard each: the run first."""
    run, reference = Steps(shards, whole), Steps([whole], whole)
    program(run)
    program(reference)
    return run.watched(step), reference.watched(step)
