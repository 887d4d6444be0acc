"""In `keras/src/losses/loss.py`, `unscale_loss_for_distribution`, leave a loss alone that has a value per example.

`reduce_values` scales by 1 / R what it has reduced to a mean. What it gives back as it is has not been scaled, and must
not be multiplied by R for the tracker of the loss.
"""

from keras.src.losses import loss as module

over = module.unscale_loss_for_distribution


def unscale_loss_for_distribution(value):
    return value if len(value.shape) else over(value)


module.unscale_loss_for_distribution = unscale_loss_for_distribution
