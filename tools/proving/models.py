"""Models of real size, whose steps are proved as well: what occurs in them has to have rules."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import msgspec

__all__ = ["FOLDER", "Model", "models"]

FOLDER = Path(__file__).resolve().parent / "programs"

_RIGHT = {
    "real_models": ("mobilenet", "resnet", "transformer", "lstm"),
    "optimizers": (
        "sgd",
        "momentum",
        "adam",
        "clipped_by_value",
        "accumulated",
        "mixed",
        "tf_keras_dense",
        "tf_keras_adam",
        "fit_adam",
        "tf_keras_fit_momentum",
    ),
}
"""By file of the folder."""
_WRONG = {
    "real_models": {
        "transformer_mean": "mean per replica, then summed",
    },
    "parts": {
        "undistributed": "every replica has the whole batch, and gradients are summed",
        "first_rows": "only the first replica's examples count",
        "replica_id": "scaled by the replica's number",
        "squared_sum": "square of a sum that is a part",
        "loop_of_parts": "squares of parts in a loop",
        "decided_by_part": "decided by a part of a sum",
        "maximum_of_parts": "a maximum of parts of a sum",
        "largest": "the largest part is taken for the sum",
        "epsilon_per_replica": "a small number is added by every replica",
        "reduced_half": "one of two gradients is not reduced",
        "clipped_parts": "clipped before the reduction",
        "state_first": "a running mean of the first replica",
        "product_of_part": "product of a vector with a part of a sum",
        "einsum_zeros": "copies of a penalty, spread by zeros",
        "loop_over_iterator": "a rate that goes round in a loop begins with more",
    },
    "counts": {
        "floor": "weighted by a rounded number of rows",
        "halves": "half of the replica's examples count",
        "batch_of_replica": "divided by the replica's static number of rows",
        "weight_by_rows": "weighted by the replica's number of rows",
        "seeded_noise": "equal noise in every replica",
        "cast_count": "half of a number of rows, rounded by a cast",
        "cast_slice": "an odd row is left out",
        "filled_at_least_once": "a replica without examples counts for one",
        "two_counts": "lengths of batches of two datasets are taken for equal",
        "static_or_none": "divided by the replica's static number of rows, where it is known",
        "static_by_hand": "a mean over the replica's static number of rows, on uneven shards",
        "nonempty_lost": "a replica without examples counts for one, in what others divide by",
        "int_shape": "divided by the replica's rows, asked of Keras",
        "static_value": "divided by the replica's rows, asked of TensorFlow while it traces",
        "unstacked": "mean over the replica's rows where they can be unstacked",
        "slice_begin": "a column told by the replica's number of rows",
        "two_lengths": "one row of a second data set is repeated on one device",
        "second_dataset_uneven": "mean over the replica's rows of a second data set",
    },
    "dtypes": {
        "narrow_count": "a number of rows in one byte",
        "narrow_sum": "a sum of bytes is cast before it is reduced",
        "narrow_part": "a part of a sum in one byte",
        "whole_mean": "a mean of whole numbers, rounded in each replica",
        "next_to_one": "a number next to 1 in double precision",
        "int_overflow": "a sum of whole numbers that fits in each replica only",
        "unsigned": "each replica's sum loses its sign",
        "float_stack": "fractions that grow with the replicas, in one vector",
        "float_concat": "a fraction that grows with the replicas, beside numbers of rows",
    },
    "retraced": {
        "rate_grows": "a rate that grows with the replicas is an argument",
        "another_value": "another graph after the first call",
        "another_trace": "another graph for the last batch",
        "another_member": "another graph after the first call, by a member of an enumeration",
        "numpy_rate": "a rate that is a NumPy number grows with the replicas",
        "fourth_length": "another graph for the fourth number of rows",
    },
    "around": {
        "loss_after": "the reported loss is multiplied outside of the function",
        "assigned_between": "the rate is changed between steps, by the number of replicas",
        "eager_inside": "right in a function, wrong around it",
        "every_second": "another function is wrong",
        "mean_of_rows": "mean of the replicas' means, outside of the function",
        "late": "the rate is changed after 260 steps, by the number of replicas",
        "even_evaluation": "mean of means in another function",
        "reported_before": "what is reported before the first step is multiplied",
        "host_threshold": "the rate is changed once the loss has fallen, by the number of replicas",
        "metric_result": "a metric's result is multiplied by the replicas",
        "own_metric": "a metric of the program's own multiplies by the replicas",
        "concrete": "a graph that is called as such takes away too much",
        "strided_assign": "another function assigns a slice of the rate",
        "sliced_between": "a slice of the rate is assigned between steps",
        "rates_dataset": "rates from a data set of numbers",
        "numpy_function": "a rate from NumPy, without state",
        "bfloat_report": "a reported loss in bfloat16 is multiplied",
    },
}
"""By file and function the mistake; each was written to be proved by mistake."""


class Model(msgspec.Struct, frozen=True):
    """A program of this folder, as `tools.trying.cases.Trial` has it."""

    stem: str
    function: str
    mistake: str | None = None
    strategy: str = "mirrored-2"

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"models:{self.function}@{self.strategy}"

    @property
    def file(self) -> Path:
        """Where it is."""
        return FOLDER / f"{self.stem}.py"

    @property
    def program(self) -> str:
        """As `prove` takes it."""
        return f"{self.file}:train_{self.function}"

    @property
    def guilty(self) -> tuple[int, ...]:
        """The lines that may be blamed."""
        from tools.trying.cases import guilty_lines

        return guilty_lines(self.file.read_text(), f"train_{self.function}")


def models(only: str = "*") -> tuple[Model, ...]:
    """All whose names match a pattern: right ones, and wrong ones that were written to be proved by mistake."""
    every = [Model(stem, name) for stem, names in _RIGHT.items() for name in names]
    every += [Model(stem, *wrong) for stem, names in _WRONG.items() for wrong in names.items()]
    return tuple(each for each in every if fnmatch.fnmatch(each.name, only))
