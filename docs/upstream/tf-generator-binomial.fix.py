"""In `tensorflow/python/ops/stateful_random_ops.py`, `Generator.binomial` has to make a key of the replica's number.

As the other distributions do, it has to draw by a stateless operation with what `_prepare_key_counter` gives, and not
by StatefulRandomBinomial from the state itself, which is the same on all replicas, and has no handle across replicas.
"""

import tensorflow as tf


def binomial(self, shape, counts, probs, dtype=tf.int32, name=None):
    seed = self.make_seeds()[:, 0]
    return tf.random.stateless_binomial(shape, seed, counts, probs, output_dtype=dtype, name=name)


tf.random.Generator.binomial = binomial
