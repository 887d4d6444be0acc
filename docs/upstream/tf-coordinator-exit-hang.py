"""A program that ends while its ClusterCoordinator waits for a worker never exits: __del__ waits for a dead thread."""

import json
import os
import socket
import subprocess
import sys

import tensorflow as tf


def train(pids: list[str]) -> None:
    where = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="chief", task_id=0, rpc_layer="grpc")
    coordinator = tf.distribute.coordinator.ClusterCoordinator(tf.distribute.ParameterServerStrategy(where))
    os.kill(int(pids[-1]), 9)  # worker 1; worker 0 executes all that follows
    for _ in range(100):
        coordinator.schedule(tf.function(lambda: tf.constant(1)))
    coordinator.join()
    watch = "sleep 20; grep -q 'State:.[^Z]' /proc/$0/status && kill -9 $0 && echo wrong: it has not exited; kill -9 $@"
    subprocess.Popen(["sh", "-c", watch, str(os.getpid()), *pids])


if sys.argv[1:]:
    tf.distribute.Server(json.loads(sys.argv[1]), job_name=sys.argv[2], task_index=int(sys.argv[3])).join()
opened = [socket.create_server(("localhost", 0)) for _ in range(4)]
chief, ps, *workers = [f"localhost:{server.getsockname()[1]}" for server in opened]
[server.close() for server in opened]
spec = tf.train.ClusterSpec(cluster := {"chief": [chief], "ps": [ps], "worker": workers})
servers = [[sys.executable, __file__, json.dumps(cluster), *task.split()] for task in ("ps 0", "worker 0", "worker 1")]
train([str(subprocess.Popen(server).pid) for server in servers])
