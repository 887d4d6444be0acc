"""In `keras/src/layers/normalization/batch_normalization.py`, `BatchNormalization.build`, name how replicas aggregate.

Each `add_weight` for a moving statistic (`moving_mean`, `moving_variance`, and the three others of `renorm`) has to say
`aggregation="mean"`. What replicas assign is then averaged, and all of them have the same statistics, as those of Keras
3.7 had. It is one all-reduce per statistic and step. tf_keras does without, by variables that are averaged when read,
for which `add_weight` here has no argument.
"""

from keras.src.layers import BatchNormalization, Layer


def add_weight(self, *args, trainable=True, **given):
    if not trainable:
        given["aggregation"] = "mean"
    return Layer.add_weight(self, *args, trainable=trainable, **given)


BatchNormalization.add_weight = add_weight
