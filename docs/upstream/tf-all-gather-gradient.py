"""The gradient through all_gather raises where rows of its result are taken by tf.gather."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@tf.function
def gradient():
    rows = tf.constant([[1.0], [2.0]])
    with tf.GradientTape() as tape:
        tape.watch(rows)
        gathered = tf.distribute.get_replica_context().all_gather(rows, axis=0)
        loss = tf.reduce_sum(tf.gather(gathered, [0, 2, 2]))
    return tape.gradient(loss, rows)


try:
    found = [value.numpy().tolist() for value in strategy.experimental_local_results(strategy.run(gradient))]
except (TypeError, ValueError) as error:
    found = str(error).strip().splitlines()[-1].strip()[:80]
right = [[[2.0], [0.0]], [[4.0], [0.0]]]
print("as it should be:" if found == right else "wrong:", found, "right:", right)
