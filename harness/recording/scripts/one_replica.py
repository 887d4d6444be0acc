"""What makes the script of a reference run with one replica, and have it read what the cluster would have told it.

The strategy keeps its class, so that the script can be as it is: `MirroredStrategy` on one device, and the strategy of
several workers without peers.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import msgspec

from harness.evidence.stand_ins import COUNT
from harness.recording.patches import patched
from harness.recording.scripts.counts import ReplicaCount, counts_in_json
from harness.recording.scripts.device_counts import counted_devices
from harness.recording.scripts.manual_shards import batch_size, inputs_of, is_joined, join_manual_shards
from harness.recording.scripts.serial_cluster import serial_cluster
from harness.recording.scripts.stand_ins import StandIns
from harness.recording.scripts.worker_counts import counted_workers
from harness.recording.steps.mean_replicas import LOSSES
from harness.subject.strategies import kind_of

_TF_CONFIG = "TF_CONFIG"


@contextlib.contextmanager
def one_replica(stand_ins: StandIns, *, follows: bool, replicas: int = 1) -> Iterator[None]:
    """Within this context strategies have one replica, and the script reads those of the cluster.

    Args:
        stand_ins: what the script is told.
        follows: whether replicas are given what those of the run were given.
        replicas: that they have nevertheless, each of which stands for a whole.
    """
    script = stand_ins.script
    with contextlib.ExitStack() as stack:
        stack.enter_context(_mirrored(replicas))
        stack.enter_context(_several_workers(replicas))
        stack.enter_context(_central_storage(replicas))
        stack.enter_context(_from_functions(stand_ins))
        count = ReplicaCount(script.replicas, stand_ins)
        stack.enter_context(counts_in_json())
        stack.enter_context(_counted(stand_ins, count, follows=follows))
        if script.workers == 1 and not script.ps:
            stack.enter_context(counted_devices(stand_ins, count))
        if script.replicas > 1 and replicas == 1:
            stack.enter_context(_values(stand_ins) if follows else _refused(stand_ins))
        if (kind := kind_of(script.strategy)) is not None and kind.reads_config:
            stack.enter_context(_config(stand_ins))
            stack.enter_context(serial_cluster() if script.ps else join_manual_shards(stand_ins))
            stack.enter_context(_preempted_by_itself())
        yield


@contextlib.contextmanager
def _mirrored(replicas: int) -> Iterator[None]:
    from tensorflow.python.distribute import distribute_lib, mirrored_strategy

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, devices: Any = None, cross_device_ops: Any = None) -> None:
            original(self, _devices(replicas), cross_device_ops)

        return init

    def somewhere(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        # In a graph a tensor may be on no device yet, which TensorFlow refuses if there is one replica.
        return lambda destination: original(destination) or _devices(1)[0]

    with (
        patched(mirrored_strategy.MirroredStrategy, "__init__", around),
        patched(distribute_lib, "_batch_reduce_destination", somewhere),
    ):
        yield


def _devices(count: int) -> list[str]:
    return [f"/cpu:{number}" for number in range(count)]


@contextlib.contextmanager
def _central_storage(replicas: int) -> Iterator[None]:
    from tensorflow.python.distribute import central_storage_strategy

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, compute_devices: Any = None, parameter_device: Any = None) -> None:
            original(self, _devices(replicas), _devices(1)[0])

        return init

    with patched(central_storage_strategy.CentralStorageStrategy, "__init__", around):
        yield


@contextlib.contextmanager
def _several_workers(replicas: int) -> Iterator[None]:
    from tensorflow.python.distribute import collective_all_reduce_strategy
    from tensorflow.python.distribute.cluster_resolver import TFConfigClusterResolver
    from tensorflow.python.distribute.cluster_resolver import cluster_resolver as resolvers
    from tensorflow.python.training import server_lib

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(
            self: Any, container_strategy: Any, cluster_resolver: Any, communication_options: Any, **_: Any
        ) -> None:
            alone = resolvers.SimpleClusterResolver(server_lib.ClusterSpec({}))
            if replicas > 1:
                original(self, container_strategy, None, communication_options, devices=_devices(replicas))
            else:
                original(self, container_strategy, alone, communication_options)
            self._cluster_resolver = cluster_resolver or TFConfigClusterResolver()  # the script asks it who it is

        return init

    with patched(collective_all_reduce_strategy.CollectiveAllReduceExtended, "__init__", around):
        yield


@contextlib.contextmanager
def _preempted_by_itself() -> Iterator[None]:
    """`PreemptionCheckpointHandler` asks no peers, of which there are none: it is told of no cluster."""
    from tensorflow.python.distribute.failure_handling.failure_handling import PreemptionCheckpointHandler

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, cluster_resolver: Any, *args: Any, **given: Any) -> None:
            original(self, None, *args, **given)

        return init

    with patched(PreemptionCheckpointHandler, "__init__", around):
        yield


@contextlib.contextmanager
def _counted(stand_ins: StandIns, count: ReplicaCount, *, follows: bool) -> Iterator[None]:
    """`num_replicas_in_sync`, which TensorFlow and Keras read as it is."""
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    def replicas(strategy: Any) -> Any:
        if not stand_ins.asked_by_script():
            return 1 if _for_program() else strategy._extended._num_replicas_in_sync  # noqa: SLF001 - what it reads
        return count

    def in_replica(context: Any) -> Any:
        if not stand_ins.asked_by_script():
            return 1 if _for_program() else context._strategy._extended._num_replicas_in_sync  # noqa: SLF001 - as above
        return count.taken("in a replica", 1)

    def number(original: Any) -> Any:
        def replica_id(context: Any) -> Any:
            if not stand_ins.asked_by_script():
                return original.fget(context)
            if not follows:
                stand_ins.note("replica_id_in_sync_group", 0, "assumed")
            return tf.constant(0)  # also of several, each of which stands for a whole

        return property(replica_id)

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def divided(tensor: Any, other: Any) -> Any:
            return original(tensor, other.divides(tensor) if isinstance(other, ReplicaCount) else other)

        return divided

    context = distribute_lib.ReplicaContextBase
    with (
        mock.patch.object(distribute_lib.StrategyBase, COUNT, property(replicas)),
        mock.patch.object(context, COUNT, property(in_replica)),
        mock.patch.object(context, "replica_id_in_sync_group", number(context.replica_id_in_sync_group)),
        patched(tf.Tensor, "__truediv__", around),
        patched(tf.Tensor, "__floordiv__", around),
    ):
        yield


def _for_program() -> bool:
    """Whether Keras asks, or TensorFlow to divide a loss, to which a replica that stands for a whole is the only."""
    asks = sys._getframe(2).f_code.co_filename  # noqa: SLF001 - who asks is all that is to be known
    return asks.endswith(LOSSES) or any(f"{os.sep}{package}{os.sep}" in asks for package in ("keras", "tf_keras"))


@contextlib.contextmanager
def _from_functions(stand_ins: StandIns) -> Iterator[None]:
    """A function that makes a worker's data set is asked for that of the only one, and R of its elements are one."""
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    replicas = stand_ins.script.replicas

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def distribute(strategy: Any, dataset_fn: Any, options: Any = None) -> Any:
            def whole(_: Any) -> Any:
                # A coordinator's workers are each told the same in the cluster, too.
                all_alike = ", as it is for each worker of a coordinator: to shard by it shards nothing"
                told = f"one input pipeline, {replicas} replicas in sync{all_alike if stand_ins.script.ps else ''}"
                stand_ins.note("InputContext", told)
                context = tf.distribute.InputContext(1, 0, replicas)
                return _repeated(_joined(dataset_fn(context), replicas, stand_ins), stand_ins.script.repeated)

            return original(strategy, whole, options)

        return distribute

    with patched(distribute_lib.StrategyBase, "distribute_datasets_from_function", around):
        yield


def _joined(dataset: Any, replicas: int, stand_ins: StandIns) -> Any:
    """A data set each of whose elements is those of all replicas, one after another."""
    if replicas == 1:
        return dataset
    if is_joined(dataset):
        replicas //= stand_ins.script.workers
    size = batch_size(dataset)
    if size is None:
        raise stand_ins.cannot(
            "distribute_datasets_from_function gets a data set whose batches have no size that is known beforehand, so "
            "that those of several replicas cannot be joined for one; batch it by Dataset.batch"
        )
    for each in inputs_of(dataset):
        if (values := getattr(each, "_padding_values", None)) is not None:
            return dataset.unbatch().padded_batch(size * replicas, padding_values=values)
    return dataset.unbatch().batch(size * replicas)


def _repeated(dataset: Any, times: int) -> Any:
    """A data set each of whose batches has its examples so many times."""
    import tensorflow as tf

    if times == 1:
        return dataset
    several = isinstance(dataset.element_spec, tuple)

    def repeated(*parts: Any) -> Any:
        return tf.nest.map_structure(lambda part: tf.concat([part] * times, 0), parts if several else parts[0])

    return dataset.map(repeated)


@contextlib.contextmanager
def _values(stand_ins: StandIns) -> Iterator[None]:
    """What gives each replica rows by its number is asked for those of all replicas."""
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    replicas = stand_ins.script.replicas

    def joined(*parts: Any) -> Any:
        arrays = [tf.convert_to_tensor(part) for part in parts]
        one = arrays[0]
        eager = tf.executing_eagerly()  # in a graph nobody knows yet
        alike = eager and all(each.shape == one.shape and bool(tf.reduce_all(each == one)) for each in arrays)
        return one if alike or not one.shape.rank else tf.concat(arrays, 0)

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def distribute(strategy: Any, value_fn: Any) -> Any:
            stand_ins.note("ValueContext", f"each of {replicas} replicas in sync, for the rows of all of them")

            def whole(_: Any) -> Any:
                contexts = [distribute_lib.ValueContext(number, replicas) for number in range(replicas)]
                return tf.nest.map_structure(joined, *map(value_fn, contexts))

            return original(strategy, whole)

        return distribute

    with patched(distribute_lib.Strategy, "experimental_distribute_values_from_function", around):
        yield


@contextlib.contextmanager
def _refused(stand_ins: StandIns) -> Iterator[None]:
    """What gives each replica a value by its number."""
    from tensorflow.python.distribute import distribute_lib

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def values(*args: Any, **options: Any) -> Any:
            raise stand_ins.cannot(
                "experimental_distribute_values_from_function gives each replica a value by its number, for which one "
                "replica cannot stand in; verify the training as a function with `record`"
            )

        return values

    with patched(distribute_lib.Strategy, "experimental_distribute_values_from_function", around):
        yield


@contextlib.contextmanager
def _config(stand_ins: StandIns) -> Iterator[None]:
    """The `TF_CONFIG` of the first worker, or of the chief with its workers, whose peers nobody reaches."""
    from tensorflow.python.distribute.cluster_resolver import TFConfigClusterResolver

    numbers = itertools.count(1)

    def addresses(count: int) -> list[str]:
        return [f"127.0.0.1:{next(numbers)}" for _ in range(count)]

    script = stand_ins.script
    cluster = {"worker": addresses(script.workers)}
    if script.ps:
        cluster |= {"chief": addresses(1), "ps": addresses(script.ps)}
    who = "chief" if script.ps else "worker"
    encoded = msgspec.json.encode({"cluster": cluster, "task": {"type": who, "index": 0}}).decode()
    told = f"{script.workers} workers, of which this is the first"
    if script.ps:
        told = f"the chief of {script.workers} workers and {script.ps} parameter servers"

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def getitem(environ: Any, key: Any) -> Any:
            if key == _TF_CONFIG and stand_ins.asked_by_script():
                stand_ins.note(_TF_CONFIG, told)
            return original(environ, key)

        return getitem

    resolver = TFConfigClusterResolver
    number = resolver.task_id  # a property, by which a script is told the same

    def task_id(self: Any) -> Any:
        if stand_ins.asked_by_script():
            stand_ins.note(_TF_CONFIG, told)
        return number.fget(self)

    with (
        mock.patch.dict(os.environ, {_TF_CONFIG: encoded}),
        patched(type(os.environ), "__getitem__", around),
        mock.patch.object(resolver, "task_id", property(task_id, number.fset)),
        counted_workers(stand_ins, encoded),
    ):
        yield
