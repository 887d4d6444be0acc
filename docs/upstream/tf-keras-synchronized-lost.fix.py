"""In `tf_keras/src/layers/normalization/batch_normalization.py`, `get_config`, add `synchronized` where it is set.

As the other options that only TensorFlow has, it is left out where it is not set. SyncBatchNormalization, which sets it
itself, has no such argument.
"""

import tf_keras
from tf_keras.src.layers.normalization.batch_normalization import BatchNormalizationBase

over = BatchNormalizationBase.get_config


def get_config(self):
    config = over(self)
    if type(self) is tf_keras.layers.BatchNormalization and self.synchronized:
        config["synchronized"] = True
    return config


BatchNormalizationBase.get_config = get_config
