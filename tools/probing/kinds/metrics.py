"""Metrics that replicas update with weighted rows, and that are read outside after each batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.probing.kinds.protocol import Form, Keras, Kind, Row, forms_of

_PLAIN = (
    "BinaryAccuracy",
    "BinaryCrossentropy",
    "CategoricalAccuracy",
    "CategoricalCrossentropy",
    "CategoricalHinge",
    "ConcordanceCorrelation",
    "CosineSimilarity",
    "F1Score",
    "FBetaScore",
    "FalseNegatives",
    "FalsePositives",
    "Hinge",
    "KLDivergence",
    "LogCoshError",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredError",
    "MeanSquaredLogarithmicError",
    "PearsonCorrelation",
    "Poisson",
    "Precision",
    "R2Score",
    "Recall",
    "RootMeanSquaredError",
    "SquaredHinge",
    "TopKCategoricalAccuracy",
    "TrueNegatives",
    "TruePositives",
)
_SPARSE = ("SparseCategoricalAccuracy", "SparseCategoricalCrossentropy")
_ROWS: list[Row] = [
    *((name, "label", (), {}) for name in _PLAIN),
    *((name, "index", (), {}) for name in _SPARSE),
    ("SparseTopKCategoricalAccuracy", "index", (2,), {}),
    ("TopKCategoricalAccuracy:two", "label", (2,), {}),
    ("AUC", "label", (), {}),
    ("AUC:precision-recall", "label", (), {"curve": "PR"}),
    ("AUC:labels", "label", (), {"multi_label": True, "num_labels": 4}),
    ("BinaryIoU", "label", (), {}),
    ("Accuracy", "indices", (), {}),
    ("IoU", "indices", (4, [0, 2]), {}),
    ("MeanIoU", "indices", (4,), {}),
    ("OneHotIoU", "label", (4, [0, 2]), {}),
    ("OneHotMeanIoU", "label", (4,), {}),
    ("Precision:thresholds", "label", (), {"thresholds": [0.2, 0.3], "class_id": 1}),
    ("Precision:top", "label", (), {"top_k": 2}),
    ("Recall:thresholds", "label", (), {"thresholds": [0.2, 0.3], "class_id": 1}),
    ("PrecisionAtRecall", "label", (0.5,), {}),
    ("RecallAtPrecision", "label", (0.5,), {}),
    ("SensitivityAtSpecificity", "label", (0.5,), {}),
    ("SpecificityAtSensitivity", "label", (0.5,), {}),
    ("F1Score:macro", "label", (), {"average": "macro", "threshold": 0.3}),
    ("FBetaScore:micro", "label", (), {"average": "micro", "beta": 2.0}),
    ("R2Score:variance", "label", (), {"class_aggregation": "variance_weighted_average"}),
    ("R2Score:adjusted", "label", (), {"num_regressors": 1}),
    ("Mean", "values", (), {}),
    ("Sum", "values", (), {}),
    ("MeanRelativeError", "label", (), {"normalizer": [1.0, 1.0, 1.0, 1.0]}),
]
# They take no weights of rows, or one for each number.
_UNWEIGHTED = ("BinaryIoU", "ConcordanceCorrelation", "PearsonCorrelation")


def _forms(keras: Keras) -> dict[str, Form]:
    forms = forms_of(keras, "metrics", _ROWS)
    forms["MeanMetricWrapper"] = Form(
        "label", lambda chosen: chosen.metrics.MeanMetricWrapper(lambda target, score: target[:, 0] - score[:, 1])
    )
    if hasattr(keras.metrics, "MeanTensor"):
        forms["MeanTensor"] = Form("values", lambda chosen: chosen.metrics.MeanTensor(shape=(4,)))
    return forms


class _Work:
    """Scores are drawn; nothing is trained."""

    inputs = ("vector", "label", "tokens")

    def __init__(self, keras: Keras, forms: Mapping[str, Form], rows: int) -> None:
        self._forms = forms
        self._metrics = {name: form.make(keras) for name, form in forms.items()}

    def compute(self, batch: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
        """One update of each metric."""
        import tensorflow as tf

        scores = batch["vector"][:, :4]
        label = batch["label"]
        index = tf.argmax(label, axis=1)
        arguments = {
            "label": (label, scores),
            "index": (index, scores),
            "indices": (index, tf.argmax(scores, axis=1)),
            "values": (scores,),
        }
        weights = tf.cast(tf.reduce_sum(batch["tokens"], axis=1) % 3, scores.dtype)
        for name, metric in self._metrics.items():
            kind = name.partition(":")[0]
            options = {} if kind in _UNWEIGHTED else {"sample_weight": weights}
            if kind == "MeanTensor":
                metric.update_state(tf.reduce_mean(scores, axis=0))
                continue
            metric.update_state(*arguments[self._forms[name].inputs], **options)
        return {}, None

    def update(self, gradients: Any) -> None:
        """Nothing."""

    def variables(self) -> Mapping[str, Any]:
        """Nothing: what replicas hold apart is summed up when it is read."""
        return {}

    def results(self) -> Mapping[str, Any]:
        """What each metric says."""
        return {name: metric.result() for name, metric in self._metrics.items()}


_MEAN_OF_PARTS = "what each replica gives is a mean of its rows"
KIND = Kind(
    module="metrics",
    bases=frozenset({"Metric", "SumOverBatchSize", "SumOverBatchSizeMetricWrapper"}),
    forms=_forms,
    work=_Work,
    circumstances=("even", "uneven", "eager"),
    issues=[("keras/*", "keras3-central-storage-metrics")],
    documented=[("*/MeanTensor/*/uneven", _MEAN_OF_PARTS)],
)
