"""What is heard around a function, with values of TensorFlow: run in a task."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np


class _Mode(enum.Enum):
    ONE = 1
    OTHER = 2


def around() -> dict[str, Any]:
    """By the name of what is tried: what two calls note, and what is heard before there is a step."""
    import tensorflow as tf

    from harness.recording.tracing.arguments import Handles, Yielded
    from harness.recording.tracing.plain_arguments import PlainArguments
    from harness.recording.tracing.process import TracedProcess
    from harness.recording.tracing.python_decisions import decisions_heard
    from harness.recording.tracing.tracer import Tracer
    from harness.recording.watch.places import Places
    from harness.recording.watch.variables import Variables

    def noted(*calls: Any) -> list[list[str]]:
        yielded = Yielded()
        plain = PlainArguments(yielded, Handles(Variables(lambda: None), 0))
        return [plain.noted(((each,), {})) for each in calls]

    tracer = Tracer(TracedProcess("local:0", 2, 0), None)
    tracer.noted.hear({"loss": tf.constant(2.0)})
    alone = list(tracer.noted.limits)
    tracer._by_another(lambda function: function(), lambda: tf.constant(1.0), tf.Graph(), (), {})
    tracer.noted.hear({"loss": tf.constant(2.0)})
    asked: list[int] = []
    with decisions_heard(Places(), lambda: asked.append(1)):
        decided = bool(tf.constant(1.0) < 2.0)
    return {
        "numpy": noted(np.float32(0.1), np.float32(0.2)),
        "equal": noted(np.float32(0.1), tf.constant(0.1)),
        "member": noted(_Mode.ONE, _Mode.OTHER),
        "same member": noted(_Mode.ONE, _Mode.ONE),
        "others": (alone, tracer.noted.limits),
        "decided": (decided, asked),
        "before": [each.name for each in tracer.noted.reported],
    }
