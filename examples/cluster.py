"""Run functions on a simulated cluster of two workers, without judging them: `python examples/cluster.py`."""

from simulator import Cluster, RunFailed, Topology


def all_reduce(value):
    """Called in every worker, each a process of its own with its own TF_CONFIG."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    total = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(value)))
    print(f"this is worker {strategy.cluster_resolver.task_id} of {strategy.num_replicas_in_sync}")
    return total


def read_shard():
    """Worker 1 cannot read its input, the others can."""
    import json
    import os

    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    if index == 1:
        raise ValueError(f"shard {index} is empty")
    return index


if __name__ == "__main__":
    with Cluster(Topology(worker=2), timeout=60) as cluster:
        result = cluster.run(all_reduce, 1.5)
        for name, task in result.items():
            print(f"{name} returned {task.value}, exit code {task.exit}, and wrote: {task.log_tail(1)}")
        try:
            cluster.run(read_shard)
        except RunFailed as failure:
            print(f"{len(failure.causes)} task failed; {failure.root_cause}")
            print(f"worker:0 returned {failure.result['worker:0'].value}")
