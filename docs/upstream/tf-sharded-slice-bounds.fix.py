"""In `tensorflow/python/distribute/sharded_variable.py`, `_decompose_slice_spec` has to clamp the bounds of the slice.

Before it is shared out, a slice has to be that of `slice(...).indices(first_dim)`: a start that is out of range is
moved to the first or the last row, and not further on by multiples of the step.
"""

from tensorflow.python.distribute.sharded_variable import ShardedVariableMixin

alone = ShardedVariableMixin._decompose_slice_spec


def decompose(self, slice_spec):
    if all(part is None or isinstance(part, int) for part in (slice_spec.start, slice_spec.stop, slice_spec.step)):
        start, stop, step = slice_spec.indices(int(self._shape[0]))
        slice_spec = slice(None if start < 0 else start, None if stop < 0 else stop, step)
        if start < 0:  # a negative step from before the first row: nothing is left
            slice_spec = slice(0, 0, 1)
    return alone(self, slice_spec)


ShardedVariableMixin._decompose_slice_spec = decompose
