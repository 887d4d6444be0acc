"""In `keras/src/random/seed_generator.py`, `SeedGenerator.next`, the seed has to depend on the replica.

With the TensorFlow backend, in a replica context of more than one replica, return
`tf.random.experimental.stateless_fold_in(seed, replica_id_in_sync_group)` in place of the state. The state itself stays
the same on all replicas, so that it is saved and restored as before; with one replica nothing changes.
"""

import tensorflow as tf
from keras.src.random.seed_generator import SeedGenerator

common = SeedGenerator.next


def next_of_the_replica(self, ordered=True):
    seed, context = common(self, ordered), tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return seed
    return tf.random.experimental.stateless_fold_in(seed, tf.cast(context.replica_id_in_sync_group, seed.dtype))


SeedGenerator.next = next_of_the_replica
