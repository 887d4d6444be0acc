"""tf.data service: a dispatcher and its workers as processes of their own, and a program that reads from them."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Literal

import portpicker

from scenarios.programs.sharding.talking import connected, talking
from simulator import Topology

Mode = Literal["parallel_epochs", "distributed_epoch", "OFF", "DYNAMIC", "FILE", "DATA", "FILE_OR_DATA", "HINT"]
GLOBAL_BATCH = 6
_HEARTBEAT_MS = 100


class Service:
    """A running tf.data service.

    Attributes:
        target: what `tf.data.experimental.service.distribute` takes, such as `grpc://localhost:5000`.
        pids: process ids of the worker servers.
        ports: the ports that they listen on.
    """

    def __init__(self, target: str, pids: tuple[int, ...], ports: tuple[int, ...]) -> None:
        self.target = target
        self.pids = pids
        self.ports = ports


@contextlib.contextmanager
def data_service(workers: int, fixed: int = 0) -> Iterator[Service]:
    """Start a dispatcher and worker servers on loopback, each in its own process.

    With `fixed` the dispatcher expects that many workers in all, as static sharding demands; those that are not
    started here are started by the clients, each its own.
    """
    with talking(Topology(worker=workers + 1), _serve, fixed) as talk:
        target = talk.hear("worker:0")
        names = [f"worker:{index}" for index in range(1, workers + 1)]
        ports = tuple(portpicker.pick_unused_port() for _ in names)
        for name, port in zip(names, ports, strict=True):
            talk.tell(name, f"{target} {port}".encode())
        for name in names:
            talk.hear(name)
        yield Service(target, tuple(talk.run.tasks[name].pid or 0 for name in names), ports)
        talk.spoilt = True  # servers hold connections to each other for as long as they live: kill them


def _serve(address: str, fixed: int) -> None:
    import tensorflow as tf

    service = tf.data.experimental.service
    with connected(address) as file:

        def say(text: str) -> None:
            file.write(f"{text}\n".encode())
            file.flush()

        if os.environ["TF_CONFIG"].endswith('"index": 0}}'):
            dispatcher = service.DispatchServer(_dispatcher_config(fixed))
            say(dispatcher.target)
            file.readline()
            return
        target, port = file.readline().decode().split()
        worker = start_worker(target, int(port))
        say("started")
        file.readline()
        del worker


def _dispatcher_config(fixed: int) -> Any:
    import tensorflow as tf

    return tf.data.experimental.service.DispatcherConfig(
        worker_addresses=["localhost:%port%"] * fixed or None,
        job_gc_check_interval_ms=_HEARTBEAT_MS,
    )


def start_worker(target: str, port: int = 0) -> Any:
    """A worker server in this process, on any port where none is given."""
    import tensorflow as tf

    service = tf.data.experimental.service
    return service.WorkerServer(
        service.WorkerConfig(dispatcher_address=target.split("://")[1], port=port, heartbeat_interval_ms=_HEARTBEAT_MS)
    )


def make(
    mode: Mode, service: Service, examples: int, *, files: int = 0, local: bool = False, kill_at: int = 0
) -> Callable[[Any, Any], None]:
    """A program that reads one epoch of a shared job and records ids; at a step it may kill the last worker server and
    start another in its place.

    With `files` the examples are in that many TFRecord files, else in memory; with `local` each client runs a worker
    server of its own and reads from no other.
    """
    return functools.partial(
        _consume, mode=mode, target=service.target, examples=examples, files=files, local=local,
        kill=(kill_at, service.pids[-1], service.ports[-1]) if kill_at else (0, 0, 0),
    )  # fmt: skip


def _consume(
    strategy: Any,
    record: Any,
    *,
    mode: Mode,
    target: str,
    examples: int,
    files: int,
    local: bool,
    kill: tuple[int, int, int],
) -> None:
    import tensorflow as tf

    # The service belongs to no task of this run, so the relay does not lead there; tasks have addresses in digits.
    os.environ["no_grpc_proxy"] = "localhost"  # noqa: SIM112 - gRPC reads this name
    own = start_worker(target) if local else None
    service = tf.data.experimental.service
    policy = getattr(service.ShardingPolicy, mode, mode)

    def dataset_fn(context: Any) -> Any:
        dataset = tf.data.Dataset.range(examples) if not files else _from_files(record.directory, examples, files)
        if mode == "HINT":
            dataset = dataset.shard(tf.data.experimental.SHARD_HINT, tf.data.experimental.SHARD_HINT)
        shared = service.distribute(
            policy, target, job_name="shared", target_workers="LOCAL" if local else "AUTO", max_outstanding_requests=1
        )
        return dataset.apply(shared).batch(context.get_per_replica_batch_size(GLOBAL_BATCH))

    number = 0
    for number, ids in enumerate(strategy.distribute_datasets_from_function(dataset_fn), 1):
        record.step(examples=ids)
        if number == kill[0] and _first(strategy):
            os.kill(kill[1], signal.SIGKILL)
            # A client asks a lost worker again and again: only one at the same address lets it go on.
            own = start_worker(target, kill[2])
    if not number:
        record.step(examples=[])
    del own


def _first(strategy: Any) -> bool:
    resolver = strategy.cluster_resolver
    return resolver is None or not resolver.task_id


def _from_files(directory: Any, examples: int, files: int) -> Any:
    """Example `i` is in file `i % files`; every client writes the same bytes."""
    import tensorflow as tf

    paths = []
    for number in range(files):
        path = directory / f"{number}.tfrecord"
        begun = directory / f"{number}.{uuid.uuid4().hex}"
        with tf.io.TFRecordWriter(str(begun)) as writer:
            for key in range(number, examples, files):
                writer.write(str(key).encode())
        begun.rename(path)
        paths.append(str(path))
    return tf.data.TFRecordDataset(paths).map(lambda text: tf.strings.to_number(text, tf.int64))
