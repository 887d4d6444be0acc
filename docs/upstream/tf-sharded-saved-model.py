"""A slice of a partitioned variable in a function of a SavedModel reads shards that are not saved."""

import os
import socket
import tempfile

import tensorflow as tf

opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
worker, ps = [f"localhost:{server.getsockname()[1]}" for server in opened]
[server.close() for server in opened]
cluster = tf.train.ClusterSpec({"worker": [worker], "ps": [ps]})
servers = [tf.distribute.Server(cluster, job_name=job, task_index=0, protocol="grpc") for job in cluster.jobs]
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
with strategy.scope():
    (model := tf.Module()).table = tf.Variable([0.0, 1.0, 2.0, 3.0])
last = tf.function(lambda: {"last": model.table[2:]}, input_signature=[])
tf.saved_model.save(model, path := tempfile.mkdtemp(), signatures=last)
try:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # as TensorFlow Serving loads it
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], path)
        found = session.run(loaded.signature_def["serving_default"].outputs["last"].name).tolist()
except tf.errors.FailedPreconditionError as error:
    found = error.message.split(" This")[0].splitlines()[-1]
print("as it should be:" if found == [2.0, 3.0] else "wrong:", found, "right: [2.0, 3.0]", flush=True)
os._exit(0)
