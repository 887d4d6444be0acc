"""The first binomial of a tf.random.Generator on one replica advances the state of another replica, not its own."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    generator = tf.random.Generator.from_seed(1)
for _ in range(2):
    strategy.run(tf.function(lambda: generator.binomial([3], counts=100.0, probs=0.5)))
first, second = (state.numpy().tolist() for state in strategy.experimental_local_results(generator.state))
print("as it should be:" if first == second else "wrong: after two draws the states are", first, second)
print("right: two equal ones")
