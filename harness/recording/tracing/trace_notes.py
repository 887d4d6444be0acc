"""What was noted of a program around its function: what it reports, what it changes, and what is not certain of it."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from harness.evidence.step_graph import ReportedValue, StepGraph
from harness.recording.tensors import tensor_of
from harness.recording.tracing.process import TracedProcess
from harness.recording.tracing.python_decisions import OTHERS
from harness.recording.tracing.result_values import reported_value


class TraceNotes:
    """Grows as the program goes on; what its fields mean is said of `StepGraph`.

    Attributes:
        others: whether another function has given numbers: what is reported from then on may follow from them.
    """

    def __init__(self, process: TracedProcess) -> None:
        self._process = process
        self.changed: list[str] = []
        self.reported: list[ReportedValue] = []
        self.doubts: list[str] = []
        self.limits: list[str] = []
        self.others = False
        self.cut = False
        self._heard = False
        self._judged: set[str] = set()
        self._marks: list[tuple[int, int]] = []
        self._copies: dict[int, list[str]] = {}

    def hear(self, reported: dict[str, Any]) -> None:
        """Note what is reported, from the beginning on: before the step as well."""
        import tensorflow as tf

        self._heard = True
        for variable in tf.nest.flatten(reported.get("variables")):
            held = tensor_of(variable)
            held = held._values[0] if hasattr(held, "_values") else held  # noqa: SLF001 - the first copy
            if (known := self._process.handles.argument(getattr(held, "handle", None))) is not None:
                self._judged.add(known.name)
        for observable in ("loss", "gradients", "metrics", "predictions"):
            given = reported.get(observable)
            for at, each in enumerate(tf.nest.flatten(given)):
                if _is_own_metric(each):
                    self.doubts.append(f"{type(each).__name__}, a metric of the program's own, is not followed")
                value = reported_value(each)
                if value is not None:
                    digest = zlib.crc32(value.astype("float64").tobytes(), zlib.crc32(repr(value.shape).encode()))
                    self.limits += [OTHERS] if self.others else []
                    self.reported.append(ReportedValue(f"{observable} {at}" if at else observable, digest))

    @property
    def was_called(self) -> bool:
        """Whether the function has been called again."""
        return bool(self._marks)

    def called(self) -> None:
        """The function is called again."""
        self._marks.append((len(self.changed), len(self.reported)))

    def assigned(self, kind: str, inputs: Any) -> None:
        """An operation changes a variable, outside of the function."""
        found = self._process.handles.argument(inputs[0])
        values = [zlib.crc32(each.numpy().tobytes()) for each in inputs[1:] if each.dtype.is_numeric]
        if found is not None:
            change = f"{kind} of {found.name} outside of the function, of {values}"
            self._copies.setdefault(found.replica or 0, []).append(change)
            if (found.replica or 0) == self._process.first:
                self.changed.append(change)

    def into(self, traced: StepGraph, asked: list[str], lengths: list[Any]) -> StepGraph:
        """What was traced, with all this.

        Args:
            traced: the function.
            asked: doubts of its trace, in sentences.
            lengths: as of `StepGraph`.
        """
        if len({tuple(each) for each in self._copies.values()}) > 1:
            self.doubts.append("outside of the function copies of variables are assigned other values than others")
        return msgspec.structs.replace(
            traced,
            reported=tuple(self.reported) if self._heard else None,
            changed=tuple(self.changed),
            judged=tuple(sorted(self._judged)),
            doubts=tuple(dict.fromkeys((*asked, *self.doubts))),
            limits=tuple(dict.fromkeys(self.limits)),
            marks=tuple(self._marks),
            cut=self.cut,
            lengths=tuple(map(tuple, lengths)),
        )


def _is_own_metric(value: Any) -> bool:
    """Whether it is a metric that does something else than those of Keras, whose variables are looked at."""
    if not hasattr(value, "result"):
        return False
    return type(value).__module__.partition(".")[0] not in ("keras", "tf_keras", "tensorflow")
