"""In `tf_keras/src/optimizers/optimizer.py`, `_use_weight_decay` has to look at the name of the distributed variable.

What `extended.update` gives to the function is a replica's copy, whose name ends in `/replica_1:0`. The container's
name is that of the model variable, on each replica.
"""

from tf_keras.src.optimizers.optimizer import Optimizer

over = Optimizer._use_weight_decay


def use_weight_decay(self, variable):
    container = getattr(variable, "_distributed_container", None)
    if container is None:
        container = getattr(getattr(variable, "handle", None), "_distributed_container", lambda: variable)
    return over(self, container() or variable)


Optimizer._use_weight_decay = use_weight_decay
