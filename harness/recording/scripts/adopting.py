"""The strategy that a script builds becomes that of the run, as soon as it is built."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched

__all__ = ["adopting"]


@contextlib.contextmanager
def adopting(built: Callable[[Any], None]) -> Iterator[None]:
    """Within this context `built` gets each strategy that is built, when its outermost constructor has returned."""
    inside = threading.local()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(strategy: Any, *args: Any, **options: Any) -> None:
            if getattr(inside, "yes", False):
                original(strategy, *args, **options)
                return
            inside.yes = True
            try:
                original(strategy, *args, **options)
            finally:
                inside.yes = False
            built(strategy)

        return init

    with contextlib.ExitStack() as stack:
        for kind in _kinds():
            stack.enter_context(patched(kind, "__init__", around))
        yield


def _kinds() -> list[Any]:
    from tensorflow.python.distribute import (
        central_storage_strategy,
        collective_all_reduce_strategy,
        mirrored_strategy,
        one_device_strategy,
        parameter_server_strategy_v2,
        tpu_strategy,
    )

    return [
        mirrored_strategy.MirroredStrategy,
        collective_all_reduce_strategy.CollectiveAllReduceStrategy,
        central_storage_strategy.CentralStorageStrategy,
        parameter_server_strategy_v2.ParameterServerStrategyV2,
        one_device_strategy.OneDeviceStrategy,
        tpu_strategy.TPUStrategyV2,
        tpu_strategy.TPUStrategy,
    ]
