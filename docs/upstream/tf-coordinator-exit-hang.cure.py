"""A program that ends in `os._exit(0)`, when all is written, waits for no thread of its ClusterCoordinator."""

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
    values = [coordinator.schedule(tf.function(lambda: tf.constant(1))) for _ in range(100)]
    coordinator.join()
    done = sum(int(value.fetch()) for value in values)
    there = "grep -q '^State:.[^Z]' /proc/$0/status"  # a zombie has exited
    watch = f"sleep 20; {there} && echo wrong: not exited || echo as it should be: {done} of 100 steps; kill -9 $0 $@"
    subprocess.Popen(["sh", "-c", watch, str(os.getpid()), *pids])
    os._exit(0)  # behind what is to be flushed and closed; no atexit, no __del__


if sys.argv[1:]:
    tf.distribute.Server(json.loads(sys.argv[1]), job_name=sys.argv[2], task_index=int(sys.argv[3])).join()
opened = [socket.create_server(("localhost", 0)) for _ in range(4)]
chief, ps, *workers = [f"localhost:{server.getsockname()[1]}" for server in opened]
[server.close() for server in opened]
spec = tf.train.ClusterSpec(cluster := {"chief": [chief], "ps": [ps], "worker": workers})
servers = [[sys.executable, __file__, json.dumps(cluster), *task.split()] for task in ("ps 0", "worker 0", "worker 1")]
train([str(subprocess.Popen(server).pid) for server in servers])
