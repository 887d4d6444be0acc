"""In `tensorflow/python/distribute/values.py`, types of `DistributedVariableTraceType` are equal for one variable only.

What a function is traced with is the variable itself (`placeholder_value` returns it, and `to_tensors` gives nothing to
feed), so that another variable of the same shape and dtype needs another trace.
"""

from tensorflow.python.distribute.values import DistributedVariableTraceType


def equal(self, other):
    return isinstance(other, DistributedVariableTraceType) and self.distributed_variable is other.distributed_variable


DistributedVariableTraceType.__eq__ = equal
