"""The loss that `fit` of Keras 3 and of tf_keras logs at the end of each epoch.

Not that of each batch: callbacks get it from single replicas in ways of Keras's own (`keras3-fit-batch-logs-uneven` and
`tf-keras-fit-batch-logs-times-workers` in the registry of known issues), so that it may be off in a right training. Nor
under CentralStorageStrategy, whose logs are off altogether (`keras3-central-storage-loss`).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.capture import capture_value
from harness.recording.patches import patched
from harness.recording.record_values import ValuePlace
from harness.recording.witness.protocol import WitnessState

_PLACE = ValuePlace("fit", "loss")


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """See what is logged after each epoch of training in this context, by the Kerases that have been imported."""
    import tensorflow as tf

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def on_epoch_end(callbacks: Any, epoch: Any, logs: Any = None) -> Any:
            with gathered.looking("the loss that fit logs"):
                if not isinstance(gathered.strategy, tf.distribute.experimental.CentralStorageStrategy):
                    _see(gathered, logs)
            return original(callbacks, epoch, logs)

        return on_epoch_end

    with contextlib.ExitStack() as stack:
        for name in ("keras", "tf_keras"):
            if name in sys.modules:
                stack.enter_context(patched(sys.modules[name].callbacks.CallbackList, "on_epoch_end", around))
        yield


def _see(gathered: WitnessState, logs: Any) -> None:
    loss = logs.get("loss") if hasattr(logs, "get") else None
    if loss is not None and gathered.made is not None:
        gathered.made.loss = capture_value(gathered.strategy, "loss", loss, _PLACE)
