"""The average can be written over the weights between two steps, outside of the replicas."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def trained(strategy, **options):
    with strategy.scope():
        weight = keras.Variable([1.0])
        optimizer = keras.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5, **options)
        optimizer.build([weight])

    @tf.function
    def step():
        strategy.run(lambda: optimizer.apply_gradients([(tf.ones([1]) / strategy.num_replicas_in_sync, weight)]))

    for number in range(1, 6):
        step()
        if number % 2 == 0 and not options:  # in fit: on_train_batch_end of a callback
            optimizer.finalize_variable_values([weight])
    return weight.numpy().item()


found = trained(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
right = trained(tf.distribute.get_strategy(), ema_overwrite_frequency=2)
print("as it should be:" if found == right else "wrong:", found, "right:", right)
