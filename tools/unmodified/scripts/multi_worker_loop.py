"""As in TensorFlow's tutorial "Custom training loop with Keras and MultiWorkerMirroredStrategy"."""

import os

import tensorflow as tf
from _data import load_data

per_worker_batch_size = 8
num_epochs = 2
num_steps_per_epoch = 5
checkpoint_dir = os.path.join("training", "ckpt")

strategy = tf.distribute.MultiWorkerMirroredStrategy()
num_workers = strategy.num_replicas_in_sync
global_batch_size = per_worker_batch_size * num_workers


def dataset_fn(global_batch_size, input_context):
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)
    dataset = tf.data.Dataset.from_tensor_slices(load_data(96)).repeat()
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.batch(batch_size)


with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            tf.keras.layers.Conv2D(4, 3, activation="tanh"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10),
        ]
    )
    dataset = strategy.distribute_datasets_from_function(
        lambda input_context: dataset_fn(global_batch_size, input_context)
    )
    optimizer = tf.keras.optimizers.RMSprop(learning_rate=0.001)
    optimizer.build(model.trainable_variables)
    train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")


@tf.function
def train_step(iterator):
    def step_fn(inputs):
        x, y = inputs
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
            per_example_loss = loss_fn(y, predictions)
            loss = tf.nn.compute_average_loss(per_example_loss, global_batch_size=global_batch_size)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        train_accuracy.update_state(y, predictions)
        return loss

    per_replica_losses = strategy.run(step_fn, args=(next(iterator),))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)


epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.dtypes.int64), name="epoch")
checkpoint = tf.train.Checkpoint(model=model, epoch=epoch)
task_id = strategy.cluster_resolver.task_id
checkpoint_manager = tf.train.CheckpointManager(checkpoint, f"{checkpoint_dir}_{task_id}", max_to_keep=1)
if latest := tf.train.latest_checkpoint(checkpoint_dir):
    checkpoint.restore(latest)
while epoch.numpy() < num_epochs:
    iterator = iter(dataset)
    total_loss = 0.0
    for step in range(num_steps_per_epoch):
        total_loss += train_step(iterator)
    print(f"Epoch: {epoch.numpy()}, train_loss: {total_loss / num_steps_per_epoch}, {train_accuracy.result()}")
    checkpoint_manager.save()
    epoch.assign_add(1)
