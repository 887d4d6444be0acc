"""A slice of what a partitioned variable is as a tensor is right in a SavedModel too."""

import os
import socket
import tempfile

import tensorflow as tf


def port() -> int:
    with socket.create_server(("localhost", 0)) as opened:
        return int(opened.getsockname()[1])


cluster = tf.train.ClusterSpec({job: [f"localhost:{port()}"] for job in ("worker", "ps")})
servers = [tf.distribute.Server(cluster, job_name=job, task_index=0, protocol="grpc") for job in cluster.jobs]
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
with strategy.scope():
    (model := tf.Module()).table = tf.Variable([0.0, 1.0, 2.0, 3.0])
path = tempfile.mkdtemp()
last = tf.function(lambda: {"last": tf.convert_to_tensor(model.table)[2:]}, input_signature=[])
tf.saved_model.save(model, path, signatures=last)
with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # as TensorFlow Serving loads it
    loaded = tf.compat.v1.saved_model.load(session, ["serve"], path)
    found = session.run(loaded.signature_def["serving_default"].outputs["last"].name).tolist()
print("as it should be:" if found == [2.0, 3.0] else "wrong:", found, "right: [2.0, 3.0]", flush=True)
os._exit(0)
