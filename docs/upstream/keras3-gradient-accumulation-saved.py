"""A checkpoint of Keras 3 amid gradient accumulation keeps what the first replica has accumulated, and no other."""

import tempfile

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weight = keras.Variable(8.0)
    optimizer = keras.optimizers.SGD(1.0, gradient_accumulation_steps=2)
    optimizer.build([weight])
checkpoint = tf.train.Checkpoint(variables=[each.value for each in [weight, *optimizer.variables]])
gradients = strategy.experimental_distribute_values_from_function(
    lambda context: tf.constant(context.replica_id_in_sync_group + 1.0)
)


def step():
    strategy.run(lambda gradient: optimizer.apply([gradient], [weight]), (gradients,))


step()
path = checkpoint.save(f"{tempfile.mkdtemp()}/save")
checkpoint.restore(path)
step()
found = float(keras.ops.convert_to_numpy(weight))  # twice a gradient of 1 + 2, of which the mean is applied
print("as it should be:" if found == 5.0 else "wrong:", found, "right: 5.0")
