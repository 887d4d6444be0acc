"""In `tensorflow/python/distribute/cross_device_utils.py` the second group has to take what the first one leaves.

`aggregate_gradients_using_hierarchical_copy` has two groups of `num_devices // 2` gradients. Where their number is
odd, the last one is in neither. Here it is added to its neighbour before, and copied from there afterwards.
"""

from tensorflow.python.distribute import cross_device_ops, cross_device_utils
from tensorflow.python.ops import array_ops

of_groups = cross_device_utils.aggregate_gradients_using_hierarchical_copy


def aggregate(devices, replica_grads):
    if len(devices) % 2 == 0 or len(devices) == 1:
        return of_groups(devices, replica_grads)
    *others, last = map(list, replica_grads)
    others[-1] = [(one + more, v) for (one, v), (more, _) in zip(others[-1], last, strict=True)]
    found = of_groups(devices[:-1], others)
    copies = [(array_ops.identity(total), v) for (total, _), (_, v) in zip(found[-1], last, strict=True)]
    return [*found, copies]


cross_device_ops.cross_device_utils.aggregate_gradients_using_hierarchical_copy = aggregate
