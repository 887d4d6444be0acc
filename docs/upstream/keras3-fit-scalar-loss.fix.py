"""In `keras/src/losses/loss.py`, function `reduce_values`, a scalar has to be scaled for the distribution as a mean is.

Its first condition returns a value of shape `()` as it is. Only a reduction of None or "none" may: with the reductions
"sum_over_batch_size", "mean" and "mean_with_sample_weight" a scalar has to go through `scale_loss_for_distribution`,
which the function calls for every other shape. A sum stays as it is: its gradients are summed over the replicas.
"""

from keras.src.losses import loss

unscaled = loss.reduce_values


def reduce_values(values, sample_weight=None, reduction="sum_over_batch_size"):
    if tuple(values.shape) == () and reduction in ("sum_over_batch_size", "mean", "mean_with_sample_weight"):
        return loss.scale_loss_for_distribution(values)
    return unscaled(values, sample_weight, reduction)


loss.reduce_values = reduce_values
