"""The strategy that a script builds becomes that of the run, as soon as it is built."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched


@contextlib.contextmanager
def adopt_strategy(built: Callable[[Any], None], line: Callable[[], str], *, checked: bool = True) -> Iterator[None]:
    """Within this context `built` gets each strategy that is built, when its outermost constructor has returned.

    Args:
        built: see above.
        line: tells the line of the script that Python is at.
        checked: whether a script is refused that tells TensorFlow of another cluster.

    Raises:
        RuntimeError: one of several workers is built after TensorFlow has begun to compute, with the line that had it;
            or the script has told TensorFlow of another cluster.
    """
    from tensorflow.python.eager import context

    given = _cluster()
    inside = threading.local()
    begun: list[str] = []

    def first() -> str | None:
        """The line that had TensorFlow compute first, if that was in this context."""
        return begun[0] if begun else None

    def begins(original: Callable[..., Any]) -> Callable[..., Any]:
        def ensure(self: Any, *args: Any, **options: Any) -> Any:
            if not self._initialized and not begun and not getattr(inside, "yes", False):
                begun.append(line())
            return original(self, *args, **options)

        return ensure

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(strategy: Any, *args: Any, **options: Any) -> None:
            if getattr(inside, "yes", False):
                original(strategy, *args, **options)
                return
            if checked:
                _check(given, strategy, line)
            inside.yes = True
            before = first()
            try:
                original(strategy, *args, **options)
            except RuntimeError as error:
                if before is None or not isinstance(strategy, _collective()):
                    raise
                raise RuntimeError(
                    f"{before} has TensorFlow compute something, and {type(strategy).__name__} is built after that; "
                    "build the strategy before anything else of TensorFlow's"
                ) from error
            finally:
                inside.yes = False
            built(strategy)

        return init

    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(context.Context, "ensure_initialized", begins))
        for kind in _kinds():
            stack.enter_context(patched(kind, "__init__", around))
        yield


def _cluster() -> Any:
    """The cluster of which TensorFlow is told; None if it is told of none."""
    try:
        return json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster")
    except (ValueError, AttributeError):  # which is for TensorFlow to refuse
        return None


def _check(given: Any, strategy: Any, line: Callable[[], str]) -> None:
    if given is not None and _cluster() != given:
        raise RuntimeError(
            f"{line()} builds {type(strategy).__name__} after TF_CONFIG was set to another cluster than this one, "
            "whose tasks nobody knows; leave TF_CONFIG as it is where it is set"
        )


def _collective() -> type[Any]:
    from tensorflow.python.distribute import collective_all_reduce_strategy

    found: type[Any] = collective_all_reduce_strategy.CollectiveAllReduceStrategy
    return found


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
