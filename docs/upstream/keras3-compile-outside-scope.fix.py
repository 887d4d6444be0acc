"""In `keras/src/backend/tensorflow/trainer.py`, class `TensorFlowTrainer`, `compile` has to enter the model's scope.

What `compile` makes (the optimizer that a name stands for, the tracker of the loss) then has variables of the
strategy, as TensorFlow's documentation of `Strategy.scope` says. Here `Trainer.compile` itself is wrapped.
"""

import functools

from keras.src.trainers.trainer import Trainer

over = Trainer.compile


@functools.wraps(over)
def compile_in_scope(self, *args, **given):
    with self.distribute_strategy.scope():
        return over(self, *args, **given)


Trainer.compile = compile_in_scope
