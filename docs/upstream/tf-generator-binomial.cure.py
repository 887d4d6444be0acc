"""stateless_binomial, with a seed from the generator, draws other numbers on every replica."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    generator = tf.random.Generator.from_seed(1)


@tf.function
def draw():
    return tf.random.stateless_binomial([1000], generator.make_seeds()[:, 0], counts=tf.fill([1000], 100.0), probs=0.5)


strategy.run(lambda: generator.normal([1]))
first, second = (numbers.numpy() for numbers in strategy.experimental_local_results(strategy.run(draw)))
same = int((first == second).sum())
print("as it should be:" if same < 200 else "wrong:", same, "of 1000 numbers are the same; right: about 56")
