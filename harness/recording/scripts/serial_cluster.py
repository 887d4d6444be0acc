"""The workers of a coordinator in the reference: in this process and on one device, one after another.

Strategy and coordinator keep their classes. Each worker has data of its own, as in the cluster, and each closure is run
when it is scheduled, by the next worker.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

_DEVICE = "/cpu:0"


class _Worker:
    """What a closure needs of a worker."""

    def __init__(self, index: int) -> None:
        self.worker_index = index
        self.device_name = _DEVICE
        self.executor: Any = None

    def create_resource(self, function: Any, args: Any = None, kwargs: Any = None) -> Any:
        """Make a data set or an iterator, at once."""
        from tensorflow.python.distribute.coordinator import cluster_coordinator

        return _executed(cluster_coordinator.ResourceClosure, self, function, args, kwargs)

    def create_variable_resource(self, function: Any, args: Any = None, kwargs: Any = None) -> Any:
        """Make a worker's own variable, at once."""
        from tensorflow.python.distribute.coordinator import cluster_coordinator

        return _executed(cluster_coordinator.PerWorkerVariableClosure, self, function, args, kwargs)


class _Cluster:
    """In place of `cluster_coordinator.Cluster`."""

    def __init__(self, strategy: Any) -> None:
        self.workers = [_Worker(index) for index in range(strategy._num_workers)]  # noqa: SLF001 - as the real one
        self._turn = 0

    def schedule(self, function: Any, args: Any, kwargs: Any) -> Any:
        from tensorflow.python.distribute.coordinator import cluster_coordinator

        worker = self.workers[self._turn]
        self._turn = (self._turn + 1) % len(self.workers)
        return _executed(cluster_coordinator.Closure, worker, function, args, kwargs)

    def join(self) -> None:
        """Everything is done."""

    def done(self) -> bool:
        return True

    def stop(self) -> None:
        """Nothing runs."""


def _executed(kind: Any, worker: _Worker, function: Any, args: Any, kwargs: Any) -> Any:
    from tensorflow.python.eager import cancellation, context

    worker.executor = worker.executor or context.context().executor
    closure = kind(function, cancellation.CancellationManager(), args=args, kwargs=kwargs)
    value = closure.build_output_remote_value()
    closure.execute_on(worker)
    return value


@contextlib.contextmanager
def serial_cluster() -> Iterator[None]:
    """Within this context `ParameterServerStrategy` has its variables here, partitioned as ever, and such workers."""
    from tensorflow.python.distribute import parameter_server_strategy_v2 as strategies
    from tensorflow.python.distribute.coordinator import cluster_coordinator, values

    def connect(self: Any, coordinator_name: str) -> None:
        spec = self._cluster_resolver.cluster_spec().as_dict()
        self._num_workers, self._num_ps = len(spec.get("worker", ())), len(spec.get("ps", ()))

    def here(self: Any, next_creator: Any, **kwargs: Any) -> Any:
        import tensorflow as tf

        with tf.device(_DEVICE):
            return next_creator(**kwargs)

    with (
        mock.patch.object(strategies.ParameterServerStrategyV2, "_connect_to_cluster", connect),
        mock.patch.object(strategies.ParameterServerStrategyV2Extended, "_create_variable_round_robin", here),
        mock.patch.object(cluster_coordinator, "Cluster", _Cluster),
        mock.patch.object(values.RemoteValueImpl, "_copy_to_local", lambda value: value._values),  # noqa: SLF001
    ):
        yield
