"""In `tensorflow/python/distribute/input_lib.py` what an iterator's spec decides has to be part of it.

`DistributedDatasetAndIteratorSpec` compares neither the cardinality nor whether partial batches are looked for, by
which `get_next` and `get_next_as_optional` are traced, nor the options. Here specs are alike only if these are.
"""

from tensorflow.python.distribute.input_lib import DistributedDatasetAndIteratorSpec as Spec

of_spec, check = Spec._serialize, Spec.sanity_check_type


def traced_by(spec):
    length = spec._cardinality if spec._cardinality in (-1, 0) else None
    return length, spec._enable_get_next_as_optional, str(spec._options)


def sanity_check_type(self, other):
    check(self, other)
    if traced_by(self) != traced_by(other):
        raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")


Spec._serialize = lambda self: (*of_spec(self), *traced_by(self))
Spec.sanity_check_type = sanity_check_type
