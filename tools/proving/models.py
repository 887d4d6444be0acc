"""Models of real size, whose steps are proved as well: what occurs in them has to have rules."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import msgspec

FOLDER = Path(__file__).resolve().parent / "programs"

_RIGHT = {
    "real_models": ("mobilenet", "resnet", "transformer", "lstm"),
    "optimizers": (
        "sgd",
        "momentum",
        "adam",
        "clipped_by_value",
        "accumulated",
        "accumulated_by_hand",
        "mixed",
        "tf_keras_dense",
        "tf_keras_adam",
        "fit_adam",
        "tf_keras_fit_momentum",
        "fit_evaluated",
        "tf_keras_fit_evaluated",
    ),
    "over_examples": (
        "mapped",
        "vectorized",
        "running_sum_of_features",
        "looped",
        "largest_features",
        "segment_sum",
        "masked",
        "sparse",
        "looked_up",
        "looked_up_sparse",
        "repeated",
    ),
    "whole_batches": (
        "standardised_rows",
        "standardised_by_all",
        "axis_right",
        "centralised",
        "signs_of_sums",
        "own_gradient_right",
        "own_gradient_clipped",
        "scaled_loss",
    ),
    "kept_values": (
        "seen_sum",
        "read_sum",
        "moving_loss",
        "rate_by_seen",
        "averaged_weights",
    ),
    "side_by_side": ("side_by_side", "no_penalties", "bits", "bits_of_sums"),
    "evaluating": (
        "evaluated_sum",
        "evaluated_rate_by_sum",
        "fit_evaluated_between",
        "tf_keras_fit_evaluated_between",
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
        "evaluation_lowers_rate": "an evaluation changes the rate by the number of replicas",
        "evaluation_keeps": "an evaluation changes what is reported by the number of replicas",
        "bfloat_report": "a reported loss in bfloat16 is multiplied",
    },
    "over_examples": {
        "scanned": "a running mean over the replica's own examples",
        "running_sum": "a running sum over the replica's own examples",
        "looped_rows": "as many rounds of a loop as the replica has examples",
        "place": "weighted by the place in the replica's batch",
        "sorted": "weighted by the rank among the replica's examples",
        "hardest": "the two worst examples of each replica",
        "median": "cut at the replica's own median",
        "unique": "divided by how many kinds of labels the replica has",
        "segment_mean": "means of kinds of examples over the replica's own",
        "segment_square": "squares of sums of kinds of examples",
        "scattered": "of each kind the last example of the replica counts",
        "ragged": "a mean over what is left of the replica's rows, ragged",
        "masked_mean": "a mean over what is left of the replica's examples",
        "weights_to_one": "weights add up to one in each replica",
        "softmax_weights": "a softmax over the replica's examples",
        "sparse_mean": "a mean over what a replica's sparse matrix holds",
        "reversed": "mixed with the example at the other end of the replica's batch",
        "neighbours": "compared with the neighbour in the replica's batch",
        "regrouped": "features of several examples come into one row",
        "each_decides": "each replica decides by its own examples",
    },
    "whole_batches": {
        "negatives": "every example against those of the same replica",
        "triplets": "the farthest example of the replica",
        "anchor": "held against the first example of the replica",
        "standardised": "standardised by the replica's mean and variance",
        "variances_averaged": "variances of replicas are averaged, each around its own mean",
        "axis_mistaken": "a norm along the examples instead of the features",
        "normed_parts": "each replica makes its gradient as long as one",
        "signs": "signs of gradients that are not added up yet",
        "sparsified": "the larger half of each replica's gradient",
        "rounded": "gradients are rounded before they are added up",
        "own_gradient": "a custom gradient divides by the replica's rows",
        "own_gradient_normed": "a custom gradient makes each replica's part as long as one",
        "scaled_by_loss": "divided by the replica's own loss",
        "deviation": "the variance of the replica's predictions as a penalty",
        "log_of_sum": "a logarithm of the replica's sum",
        "root": "a root of the replica's mean",
    },
    "kept_values": {
        "seen_mean": "numbers of examples are averaged over the replicas",
        "seen_first": "only the first replica's number of examples",
        "read_mean": "numbers of examples of each replica, averaged when read",
        "read_first": "of what each replica keeps the first one's is read",
        "read_ones": "each replica counts a step, and they are added up",
        "read_inside": "a rate by what the replica itself has counted",
        "largest_loss": "the largest loss of each replica, averaged",
        "moving_square": "squares of each replica's loss, added up",
        "rate_by_steps_seen": "a rate by steps times the replicas",
        "outside_scope": "a variable of no scope, changed by every replica",
        "queued": "what a replica takes out of a queue that all have",
        "table": "a table that all replicas count in",
        "given_rate": "each replica is given a rate of its own",
        "seeds_of_replicas": "a seed for each replica's features",
        "stops_early": "stops by the first replica's loss",
        "rate_by_rows_of_first": "a rate by the examples of the first replica, counted outside of the function",
        "standardised_data": "data is centred within the batches that a pipeline makes",
    },
    "side_by_side": {
        "side_by_side_mean": "features side by side, and a mean per replica, then summed",
        "under_each_other": "the replica's examples follow a row of weights, weighted by their place",
        "one_penalty": "a penalty of each replica, of a list that is empty elsewhere",
        "bits_of_parts": "bits of parts of a gradient decide",
    },
    "evaluating": {
        "evaluated_mean_of_means": "what is evaluated is a mean of means, added up",
        "evaluated_means_kept": "means of replicas are kept and added up where it is evaluated",
        "evaluated_ones": "each replica counts a batch where it is evaluated, and they are added up",
        "evaluated_averaged": "what replicas have added up is averaged",
        "evaluated_rate": "a rate is lowered by the number of replicas where it is evaluated",
        "evaluated_rate_by_loss": "a rate is lowered by a replica's mean loss where it is evaluated",
        "evaluated_undistributed": "every replica evaluates the whole batch, and they are added up",
        "evaluated_wrong_step": "the step adds up means, next to a right evaluation",
        "evaluated_penalty": "half of a penalty of each replica in what is evaluated",
        "fit_evaluation_trains": "an evaluation trains along each replica's own gradients",
        "fit_evaluation_keeps": "an evaluation keeps the replica's own sum",
        "fit_evaluation_decays": "an evaluation makes weights smaller by the number of replicas",
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
