"""What Keras 3 and tf_keras log at the end of each epoch, a loss, and of each evaluation, such as a validation.

Not that of each batch: callbacks get it from single replicas in ways of Keras's own (`keras3-fit-batch-logs-uneven` and
`tf-keras-fit-batch-logs-times-workers` in the registry of known issues), so that it may be off in a right training. Nor
under CentralStorageStrategy, whose logs are off altogether (`keras3-central-storage-loss`).
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from harness.evidence.trace import EVALUATE
from harness.recording.capture import capture_value
from harness.recording.patches import patched
from harness.recording.record_values import ValuePlace
from harness.recording.witness.protocol import WitnessState

_PLACE = ValuePlace("fit", "loss")


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """See what is logged in this context, by the Kerases that have been imported."""
    import tensorflow as tf

    def seen(original: Callable[..., Any], see: Callable[[WitnessState, Any], None]) -> Callable[..., Any]:
        def ends(callbacks: Any, *args: Any, **options: Any) -> Any:
            with gathered.looking("what Keras logs"):
                if not isinstance(gathered.strategy, tf.distribute.experimental.CentralStorageStrategy):
                    see(gathered, options["logs"] if "logs" in options else args[-1])
            return original(callbacks, *args, **options)

        return ends

    with contextlib.ExitStack() as stack:
        for name in ("keras", "tf_keras"):
            if name in sys.modules:
                callbacks = sys.modules[name].callbacks.CallbackList
                for method, see in (("on_epoch_end", _loss), ("on_test_end", _evaluation)):
                    stack.enter_context(patched(callbacks, method, functools.partial(seen, see=see)))
        yield


def _evaluation(gathered: WitnessState, logs: Any) -> None:
    import numpy as np
    import tensorflow as tf

    numbers = {name: tf.constant(float(value)) for name, value in dict(logs or {}).items() if np.ndim(value) == 0}
    if numbers and gathered.worker is None:
        gathered.evaluated(numbers, EVALUATE, trains=True)


def _loss(gathered: WitnessState, logs: Any) -> None:
    loss = logs.get("loss") if hasattr(logs, "get") else None
    if loss is not None and gathered.made is not None:
        gathered.made.loss = capture_value(gathered.strategy, "loss", loss, _PLACE)
