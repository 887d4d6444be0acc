"""A custom loop under CentralStorageStrategy, with the variables on the CPU."""

import tensorflow as tf

strategy = tf.distribute.experimental.CentralStorageStrategy(
    compute_devices=["CPU:0", "CPU:1"], parameter_device="CPU:0"
)
GLOBAL_BATCH = 6 * strategy.num_replicas_in_sync
x = tf.random.stateless_normal([48, 4], seed=[1, 2])
dataset = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, axis=1) + 1.0)).batch(GLOBAL_BATCH)
with strategy.scope():
    w = tf.Variable(tf.zeros([4]), name="w", aggregation=tf.VariableAggregation.SUM)
    b = tf.Variable(0.0, name="b", aggregation=tf.VariableAggregation.SUM)


@tf.function
def train_step(x, y):
    def replica_step(x, y):
        with tf.GradientTape() as tape:
            error = (tf.linalg.matvec(x, w) + b - y) ** 2
            loss = tf.nn.compute_average_loss(error, global_batch_size=GLOBAL_BATCH)
        gradients = tape.gradient(loss, [w, b])
        w.assign_sub(0.1 * gradients[0])
        b.assign_sub(0.1 * gradients[1])
        return loss

    return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)


for epoch in range(2):
    for x, y in strategy.experimental_distribute_dataset(dataset):
        print(epoch, float(train_step(x, y)))
