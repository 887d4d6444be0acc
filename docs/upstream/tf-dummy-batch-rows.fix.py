"""In `tensorflow/python/distribute/input_lib.py` the first dimension of a dummy has to be 0 whatever the others are.

`_dummy_tensor_fn` sets it to 0 only where the whole shape is static. Here the rows that it leaves are cut off.
"""

from tensorflow.python.distribute import input_lib
from tensorflow.python.framework import sparse_tensor, tensor
from tensorflow.python.util import nest

of_structure = input_lib._dummy_tensor_fn


def without_rows(dummy):
    if isinstance(dummy, sparse_tensor.SparseTensor) and dummy.shape.rank:
        return sparse_tensor.SparseTensor(dummy.indices, dummy.values, [0, *dummy.dense_shape[1:]])
    return dummy[:0] if isinstance(dummy, tensor.Tensor) and dummy.shape.rank else dummy


input_lib._dummy_tensor_fn = lambda structure: nest.map_structure(without_rows, of_structure(structure))
