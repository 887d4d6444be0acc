"""In `tensorflow/python/distribute/mirrored_strategy.py`, `_batch_reduce_to` must not compare objects made anew.

`_get_cross_device_ops` makes another ReductionToOneDevice for each int32 value, so that two of them are never the same
object. Values have to be put into groups by the operations that reduce them, and each group be reduced by its own.
"""

from tensorflow.python.distribute.mirrored_strategy import MirroredExtended


def batch_reduce_to(self, reduce_op, value_destination_pairs, options):
    options = self._communication_options.merge(options)
    pairs = list(value_destination_pairs)
    groups = {}
    for place, (value, _) in enumerate(pairs):
        operations = self._get_cross_device_ops(value)
        groups.setdefault(type(operations), (operations, []))[1].append(place)
    results = {}
    for operations, places in groups.values():
        reduced = operations.batch_reduce(reduce_op, [pairs[place] for place in places], options=options)
        results.update(zip(places, reduced, strict=True))
    return [results[place] for place in range(len(pairs))]


MirroredExtended._batch_reduce_to = batch_reduce_to
