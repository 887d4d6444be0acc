"""In `tensorflow/python/distribute/input_lib.py` static shapes do not say that all replicas get a last batch.

`_enable_get_next_as_optional` looks for partial steps of one worker only where shapes are not static. Here it does so
for each dataset from a function that is not infinite.
"""

from tensorflow.python.distribute.input_lib import DistributedDatasetsFromFunction

build_dataset = DistributedDatasetsFromFunction.build


def build(self):
    build_dataset(self)
    extended = self._strategy.extended
    handled = getattr(extended, "experimental_enable_get_next_as_optional", False)
    handled = getattr(extended, "enable_partial_batch_handling", handled) and len(extended.worker_devices) > 1
    self._enable_get_next_as_optional |= handled and self._cardinality != -1


DistributedDatasetsFromFunction.build = build
