"""In `tensorflow/python/distribute/input_lib.py` a sparse or ragged tensor of unknown rank has no static shape.

`_is_statically_shaped` compares its rank, which is None, with 0.
"""

from tensorflow.python.distribute import input_lib
from tensorflow.python.util import nest

of_known_rank = input_lib._is_statically_shaped


def is_statically_shaped(element_spec):
    shapes = [getattr(spec, "shape", None) for spec in nest.flatten(element_spec)]
    return all(shape is None or shape.rank is not None for shape in shapes) and of_known_rank(element_spec)


input_lib._is_statically_shaped = is_statically_shaped
