"""How many devices a script counts that lists them: as its own reference it has one, and the run one for each replica.

`len` gives a number of Python's own, which tells nobody what is done with it. So the script has a `len` of ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

from harness.recording.patches import patched
from harness.recording.scripts.counts import ReplicaCount
from harness.recording.scripts.stand_ins import StandIns


class CountedList(list[Any]):
    """What there is, and how much of it the script is told."""

    def __init__(self, things: Iterable[Any], told: Callable[[int], Any]) -> None:
        super().__init__(things)
        self.told = told


def length(things: Any) -> Any:
    """The script's `len`, also where AutoGraph converts it."""
    import tensorflow as tf
    from tensorflow.python.autograph.operators import py_builtins

    if isinstance(things, CountedList):
        return things.told(len(things))
    return py_builtins.len_(things) if tf.is_tensor(things) else len(things)


@contextlib.contextmanager
def counted_devices(stand_ins: StandIns, count: ReplicaCount) -> Iterator[None]:
    """Within this context a script that lists the devices of its strategy gets them by a `CountedList`."""
    import tensorflow as tf
    from tensorflow.python.distribute import mirrored_strategy, parameter_server_strategy

    script = stand_ins.script

    def logical(_: int) -> ReplicaCount:
        return count

    def physical(own: int) -> int:
        # One may be split into several, and a machine may have more than the strategy takes.
        stand_ins.note("how many physical devices there are", own, "assumed")
        return own

    def listing(told: Callable[[int], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def listed(device_type: str | None = None) -> Any:
                found = original(device_type)
                ours = device_type == script.device_type and stand_ins.asked_by_script()
                return CountedList(found, told) if ours else found

            return listed

        return around

    def of_strategy(original: Any) -> Any:
        def worker_devices(extended: Any) -> Any:
            found = original.fget(extended)
            return CountedList(found, logical) if stand_ins.asked_by_script() else found

        return property(worker_devices)

    kinds = (mirrored_strategy.MirroredExtended, parameter_server_strategy.ParameterServerStrategyExtended)
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(tf.config, "list_logical_devices", listing(logical)))
        if script.device_type == "GPU":  # of CPUs a machine has one
            stack.enter_context(patched(tf.config, "list_physical_devices", listing(physical)))
        for kind in kinds:
            stack.enter_context(mock.patch.object(kind, "worker_devices", of_strategy(kind.worker_devices)))
        yield
