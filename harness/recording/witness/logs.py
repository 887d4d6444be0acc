"""The loss that `fit` of Keras 3 and of tf_keras hands to its callbacks after each batch."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.accepted import Place
from harness.recording.capture import capture_value
from harness.recording.patches import patched
from harness.recording.witness.protocol import Gathered

__all__ = ["active"]

_PLACE = Place("fit", "loss")


@contextlib.contextmanager
def active(gathered: Gathered) -> Iterator[None]:
    """See what is logged after each batch of training in this context, by the Kerases that have been imported."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def on_train_batch_end(callbacks: Any, batch: Any, logs: Any = None) -> Any:
            _see(gathered, logs)  # before the program's own callbacks, one of which may report the step
            return original(callbacks, batch, logs)

        return on_train_batch_end

    with contextlib.ExitStack() as stack:
        for name in ("keras", "tf_keras"):
            # The one of tf_keras is not part of its public names.
            if name in sys.modules and (kind := _callback_list(name)) is not None:
                stack.enter_context(patched(kind, "on_train_batch_end", around))
        yield


def _callback_list(package: str) -> Any:
    return getattr(sys.modules[package].callbacks, "CallbackList", None)


def _see(gathered: Gathered, logs: Any) -> None:
    loss = logs.get("loss") if hasattr(logs, "get") else None
    if loss is None or gathered.made is None:
        return
    with gathered.looking("the loss that fit logs"):
        gathered.made.loss = capture_value(gathered.strategy, "loss", loss, _PLACE)
