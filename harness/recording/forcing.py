"""Sets the variables of a reference to those of a run, after each step, so that each step is judged by itself.

The reference has recorded its own values before it is set. So what it records at a step follows from what the run had
after the step before: a mistake shows at the steps at which it is made, and rounding does not grow from step to step.

What the run had is read from its trace, one step at a time. It is set where the run and the reference recorded a
variable under the same name, with the same shape and dtype; everything else stays as it is in the reference, and is
noted. So are values that are not finite, which are set like others: the run went on from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.evidence.observed import items
from harness.evidence.trace import Array, Counters, Forced, Step, Variable, frames
from harness.recording.accepted import Place
from harness.recording.capture import variable_groups
from harness.recording.running_means import set_mean
from harness.recording.tensors import tensor_of
from harness.recording.unrecorded import Unrecorded

__all__ = ["Forcing"]

_LEFT_MAX = 8
_Groups = list[tuple[str, list[Any]]]


class Forcing:
    """Follows the trace of a run through the steps of a reference.

    Attributes:
        unrecorded: looks for variables that change and are not recorded, in the context of its `tracking`.
    """

    def __init__(self, trace: Path, strategy: Any) -> None:
        self.unrecorded = Unrecorded()
        self._strategy = strategy
        self._epochs_only = False
        self._recorded = self._steps(trace)
        self._next = next(self._recorded, None)
        self._epochs = 0
        self._set_after = 0
        self._due = 0
        self._left: dict[str, str] = {}
        self._not_finite: int | None = None

    def _steps(self, trace: Path) -> Iterator[Step]:
        for frame in frames(trace):
            if isinstance(frame, Counters):
                self._epochs_only |= frame.per_epoch
            elif isinstance(frame, Step):
                yield frame

    def after_step(self, step: int, variables: Any, means: dict[str, Any], call: str) -> bool:
        """Set what the reference has just recorded of this step to what the run recorded of it.

        Args:
            step: from 1.
            variables: what the program has given, None if nothing.
            means: Keras metrics, which are running means, by the names that their values are recorded by.
            call: what the program has called, for sentences.

        Returns:
            Whether anything was set.
        """
        if self._epochs_only:
            self._look(step, self._groups(variables, call), means)
            return False
        return self._set(step, self._at(step), variables, means, call)

    def after_epoch(self, step: int, variables: Any, means: dict[str, Any], call: str) -> bool:
        """The same at the end of an epoch, of a run that could record nothing else; `step` is the epoch's last."""
        if not self._epochs_only:
            return False
        self._epochs += 1
        return self._set(step, self._at(self._epochs), variables, means, call)

    def _at(self, index: int) -> Step | None:
        while self._next is not None and self._next.index < index:
            self._next = next(self._recorded, None)
        return self._next if self._next is not None and self._next.index == index else None

    def _set(self, step: int, record: Step | None, variables: Any, means: dict[str, Any], call: str) -> bool:
        self._due += 1
        recorded = items(record, "variables")
        if record is not None and means:
            values = {**(items(record, "loss") or {}), **(items(record, "metrics") or {})}
            means = {name: mean for name, mean in means.items() if set_mean(mean, values.get(name))}
        groups = self._groups(variables, call)
        self._look(step, groups, means)
        if variables is None or record is None:
            return False
        if recorded is None:
            self._note("all variables", f"after step {step} the run recorded none")
            return False
        for name, shards in groups:
            value = recorded.get(name)
            if not isinstance(value, Variable) or not value.copies:
                self._note(repr(name), f"the run did not record it at step {step}")
            elif (why := _unlike(value.value, shards)) is not None:
                self._note(repr(name), f"at step {step} {why}")
            else:
                self._assign(step, value.value, shards)
        self._set_after += 1
        return True

    def _assign(self, step: int, value: Array, shards: list[Any]) -> None:
        import numpy as np
        import tensorflow as tf

        # A copy, since TensorFlow may take over the memory of an array and update it in place.
        array = np.array(value.numpy())
        if self._not_finite is None and array.dtype.kind in "fc" and not np.isfinite(array).all():
            self._not_finite = step
        begin = 0
        for shard in map(tensor_of, shards):
            rows = array if len(shards) == 1 else array[begin : begin + shard.shape[0]]
            begin += len(rows) if rows.shape else 0
            shard.assign(tf.cast(tf.constant(rows), shard.dtype))  # bfloat16 is stored widened

    def _groups(self, variables: Any, call: str) -> _Groups:
        return [] if variables is None else variable_groups(self._strategy, variables, Place(call, "variables"))

    def _look(self, step: int, groups: _Groups, means: dict[str, Any]) -> None:
        recorded = [shard for _, shards in groups for shard in shards]
        state = [each for mean in means.values() for each in mean.variables]
        self.unrecorded.look(step, map(tensor_of, (*recorded, *state)))

    def _note(self, what: str, why: str) -> None:
        if len(self._left) < _LEFT_MAX:
            self._left.setdefault(what, why)

    def found(self) -> Forced:
        """What there is to say when the program has ended."""
        left = tuple(f"{what}: {why}" for what, why in self._left.items())
        return Forced(self._set_after, self._due, left, self.unrecorded.changing(), self._not_finite)


def _unlike(value: Array, shards: list[Any]) -> str | None:
    """Why a value of the run cannot be a variable's, or None."""
    inner = [tensor_of(shard) for shard in shards]
    shape = tuple(inner[0].shape)
    if len(inner) > 1:
        shape = (sum(shard.shape[0] for shard in inner), *shape[1:])
    ours, theirs = (inner[0].dtype.name, shape), (value.dtype, tuple(value.shape))
    if ours == theirs and not value.rows:
        return None
    return f"it is {theirs[0]} of shape {theirs[1]} in the run and {ours[0]} of shape {ours[1]} in the reference"
