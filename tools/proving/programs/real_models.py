"""Models of real size, and one of them with a mistake."""

import tensorflow as tf
from keras_loops import images, keras_loop, sgd, tokens, transformer
from plain_loops import BATCH, SUM


def train_mobilenet(strategy, record):
    def build(keras):
        return keras.applications.MobileNetV2((32, 32, 3), 0.35, weights=None, classes=10, classifier_activation=None)

    keras_loop(strategy, record, build, *images(32), sgd)


def train_resnet(strategy, record):
    def build(keras):
        return keras.applications.ResNet50(
            input_shape=(32, 32, 3), weights=None, classes=10, classifier_activation=None
        )

    keras_loop(strategy, record, build, *images(32), sgd)


def train_transformer(strategy, record):
    keras_loop(strategy, record, transformer, *tokens(), sgd)


def train_lstm(strategy, record):
    def build(keras):
        layers = keras.layers
        return keras.Sequential(
            [keras.Input((6,), dtype="int32"), layers.Embedding(20, 8), layers.LSTM(8), layers.Dense(4)]
        )

    keras_loop(strategy, record, build, *tokens(), sgd)


def train_transformer_mean(strategy, record):
    """Mean per replica, then summed."""
    import keras

    keras.utils.set_random_seed(1)
    x, y = tokens()
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH))
    with strategy.scope():
        model, update = transformer(keras), sgd(keras)

    def replica_step(inputs, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(inputs))
            loss = tf.reduce_mean(losses)  # guilty
        update.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    @tf.function
    def train_step(inputs, labels):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(inputs, labels)), axis=None)

    for inputs, labels in dataset:
        record.step(loss=train_step(inputs, labels), variables=model.trainable_variables)
