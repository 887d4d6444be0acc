"""A function of its own for each dataset is traced for it."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def sums(warm_up):
    def step(batches):
        optional = batches.get_next_as_optional()
        if not optional.has_value():
            return tf.constant(-1, tf.int64)
        return strategy.reduce("SUM", strategy.run(tf.reduce_sum, args=(optional.get_value(),)), axis=None)

    batches = [iter(strategy.distribute_datasets_from_function(lambda _, d=d: d.batch(2))) for d in (warm_up, data)]
    first, second = tf.function(step), tf.function(step)
    first(batches[0])
    return [int(second(batches[1])) for _ in range(3)]


data = tf.data.Dataset.range(6)
found = {"finite": sums(data), "infinite": sums(data.repeat()), "empty": sums(data.take(0))}
right = all(value == [6, 9, -1] for value in found.values())
print("as it should be:" if right else "wrong:", "sums after another dataset:", found, "right: 6, 9, end (-1) each")
