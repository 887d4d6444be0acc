"""A count that is kept as a float64 is restored to the number that was saved, when it is rounded."""

import tempfile

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
on_read, summed = tf.VariableSynchronization.ON_READ, tf.VariableAggregation.SUM
with strategy.scope():
    count = tf.Variable(0.0, dtype=tf.float64, trainable=False, synchronization=on_read, aggregation=summed)


@tf.function
def add():
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    count.assign_add(3 - tf.cast(replica, tf.float64))


strategy.run(add)
saved = round(float(count.read_value()))
path = tf.train.Checkpoint(count=count).write(tempfile.mkdtemp() + "/saved")
tf.train.Checkpoint(count=count).read(path).assert_consumed()
restored = round(float(count.read_value()))
right = restored == saved == 3 + 2
print("as it should be:" if right else "wrong:", saved, "examples counted,", restored, "after restoring")
