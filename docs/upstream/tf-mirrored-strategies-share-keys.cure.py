"""Further ones reduce by ReductionToOneDevice, which has no collectives; where one suffices, keep it."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def total(size, **reduction):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], **reduction)
    add = tf.function(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([size])))
    return strategy.experimental_local_results(strategy.run(add))[0].numpy().tolist()


totals = [total(2), total(3, cross_device_ops=tf.distribute.ReductionToOneDevice())]
print("as it should be:" if totals == [[2.0] * 2, [2.0] * 3] else "wrong:", totals)
