"""In `tf_keras/src/engine/data_adapter.py`, `_convert_to_dataset_creator`, give the weights by the adapter's name.

`DataHandler` calls them `sample_weight`, the adapter of arrays `sample_weights`.
"""

from tf_keras.src.engine.data_adapter import _ClusterCoordinatorDataHandler as Handler

over = Handler._convert_to_dataset_creator


def convert(self, x, y, **given):
    return over(self, x, y, sample_weights=given.pop("sample_weight", None), **given)


Handler._convert_to_dataset_creator = convert
