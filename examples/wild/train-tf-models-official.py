"""TensorFlow Models: a transformer encoder with LAMB and averaged weights, trained by Orbit's `StandardTrainer`."""

# /// script
# dependencies = [
#   "gin-config", "immutabledict", "pyyaml", "scipy", "tensorflow-hub", "tensorflow-text", "tf_slim"
# ]
# [tool.lockstep]
# without-their-own = ["tf-models-official==2.20.0"]
# environ = { TF_USE_LEGACY_KERAS = "1" }
# cases = ["train mirrored-2", "train multi_worker-2"]
# ///

import numpy as np
import orbit
import tensorflow as tf
import tf_keras
from official.modeling.optimization import ema_optimizer, lamb
from official.nlp.modeling import models, networks

rng = np.random.default_rng(0)
INPUTS = {
    name: rng.integers(0, most, (64, 8))
    for name, most in (("input_word_ids", 50), ("input_mask", 2), ("input_type_ids", 2))
}
LABELS = rng.integers(0, 3, 64)


class Trainer(orbit.StandardTrainer):
    def __init__(self, strategy):
        self.strategy = strategy
        with strategy.scope():
            shape = {"hidden_size": 16, "num_layers": 1, "num_attention_heads": 2, "inner_dim": 32}
            none = {"output_dropout": 0.0, "attention_dropout": 0.0}
            encoder = networks.BertEncoder(50, max_sequence_length=8, **shape, **none)
            self.model = models.BertClassifier(encoder, num_classes=3, dropout_rate=0.0)
            self.optimizer = ema_optimizer.ExponentialMovingAverage(lamb.LAMB(learning_rate=1e-3))
            self.optimizer.shadow_copy(self.model)
            loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
        data = tf.data.Dataset.from_tensor_slices((INPUTS, LABELS)).batch(16)
        self.loss = loss
        super().__init__(strategy.experimental_distribute_dataset(data))

    def train_step(self, iterator):
        def replica_step(inputs, labels):
            with tf.GradientTape() as tape:
                losses = self.loss(labels, self.model(inputs, training=True))
                loss = tf.nn.compute_average_loss(losses, global_batch_size=16)
            gradients = tape.gradient(loss, self.model.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))

        self.strategy.run(replica_step, args=next(iterator))


def train(strategy, record):
    trainer = Trainer(strategy)
    for _ in range(4):
        trainer.train(tf.constant(1))
        record.step(variables=[*trainer.model.variables, *trainer.optimizer.variables()])
