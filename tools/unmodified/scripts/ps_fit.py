"""tf_keras' fit under ParameterServerStrategy, with a DatasetCreator, as in TensorFlow's tutorial."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf
import tf_keras as keras
from _data import load_data

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)


def dataset_fn(input_context):
    batch_size = input_context.get_per_replica_batch_size(global_batch_size=8)
    dataset = tf.data.Dataset.from_tensor_slices(load_data(48)).shuffle(48, seed=3).repeat()
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.batch(batch_size).prefetch(2)


with strategy.scope():
    model = keras.Sequential(
        [keras.layers.Flatten(input_shape=(8, 8, 1)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(10)]
    )
    model.compile(
        keras.optimizers.legacy.SGD(0.1, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=1,
    )
callbacks = [keras.callbacks.ModelCheckpoint(filepath=os.path.join("my_working_dir", "ckpt-{epoch}"))]
dataset = keras.utils.experimental.DatasetCreator(dataset_fn)
model.fit(dataset, epochs=2, steps_per_epoch=12, callbacks=callbacks, verbose=2)
