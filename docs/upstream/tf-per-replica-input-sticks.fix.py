"""In `tensorflow/python/distribute/mirrored_strategy.py` the option of one dataset must not be kept for the next ones.

`_input_workers_with_options` assigns `self._input_workers_devices` for PER_REPLICA. Here what it was is put back.
"""

from tensorflow.python.distribute.mirrored_strategy import MirroredExtended

of_options = MirroredExtended._input_workers_with_options


def input_workers(self, options=None):
    kept = self._input_workers_devices
    try:
        return of_options(self, options)
    finally:
        self._input_workers_devices = kept


MirroredExtended._input_workers_with_options = input_workers
