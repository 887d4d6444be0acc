"""Models of real size, whose steps are proved as well: what occurs in them has to have rules."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import msgspec

__all__ = ["Model", "models"]

FILE = Path(__file__).resolve().parent / "programs.py"

_RIGHT = (
    *("mobilenet", "resnet", "transformer", "lstm", "sgd", "momentum", "adam", "clipped_by_value", "accumulated"),
    *("mixed", "tf_keras_dense", "tf_keras_adam", "fit_adam", "tf_keras_fit_momentum"),
)
_WRONG = {
    "transformer_mean": "mean per replica, then summed",
    "loss_after": "the reported loss is multiplied outside of the function",
    "rate_grows": "a rate that grows with the replicas is an argument",
    "assigned_between": "the rate is changed between steps, by the number of replicas",
    "another_value": "another graph after the first call",
    "eager_inside": "right in a function, wrong around it",
    "every_second": "another function is wrong",
    "floor": "weighted by a rounded number of rows",
    "seeded_noise": "equal noise in every replica",
    "loop_of_parts": "squares of parts in a loop",
    "decided_by_part": "decided by a part of a sum",
    "first_rows": "only the first replica's examples count",
    "halves": "half of the replica's examples count",
    "squared_sum": "square of a sum that is a part",
    "batch_of_replica": "divided by the replica's static number of rows",
    "maximum_of_parts": "a maximum of parts of a sum",
    "weight_by_rows": "weighted by the replica's number of rows",
    "replica_id": "scaled by the replica's number",
    "epsilon_per_replica": "a small number is added by every replica",
    "reduced_half": "one of two gradients is not reduced",
    "clipped_parts": "clipped before the reduction",
    "state_first": "a running mean of the first replica",
    "undistributed": "every replica has the whole batch, and gradients are summed",
    "cast_count": "half of a number of rows, rounded by a cast",
    "cast_slice": "an odd row is left out",
    "narrow_count": "a number of rows in one byte",
    "largest": "the largest part is taken for the sum",
    "narrow_sum": "a sum of bytes is cast before it is reduced",
    "narrow_part": "a part of a sum in one byte",
    "whole_mean": "a mean of whole numbers, rounded in each replica",
    "filled_at_least_once": "a replica without examples counts for one",
    "two_counts": "lengths of batches of two datasets are taken for equal",
    "next_to_one": "a number next to 1 in double precision",
}
# Wrong around the function, or in another trace of it than the one that is looked at.
_AROUND = {
    "static_or_none": "divided by the replica's static number of rows, where it is known",
    "static_by_hand": "a mean over the replica's static number of rows, on uneven shards",
    "another_trace": "another graph for the last batch",
    "numpy_rate": "a rate that is a NumPy number grows with the replicas",
    "another_member": "another graph after the first call, by a member of an enumeration",
    "mean_of_rows": "mean of the replicas' means, outside of the function",
    "late": "the rate is changed after 260 steps, by the number of replicas",
    "even_evaluation": "mean of means in another function",
    "reported_before": "what is reported before the first step is multiplied",
    "host_threshold": "the rate is changed once the loss has fallen, by the number of replicas",
}


class Model(msgspec.Struct, frozen=True):
    """A program of this folder, as `tools.trying.cases.Trial` has it."""

    function: str
    strategy: str = "mirrored-2"
    mistake: str | None = None

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"models:{self.function}@{self.strategy}"

    @property
    def file(self) -> Path:
        """Where it is."""
        return FILE

    @property
    def program(self) -> str:
        """As `prove` takes it."""
        return f"{FILE}:train_{self.function}"

    @property
    def guilty(self) -> tuple[int, ...]:
        """The lines that may be blamed."""
        from tools.trying.cases import guilty_lines

        return guilty_lines(FILE.read_text(), f"train_{self.function}")


def models(only: str = "*") -> tuple[Model, ...]:
    """All whose names match a pattern: right ones, and wrong ones that were written to be proved by mistake."""
    every = [*map(Model, _RIGHT), *(Model(name, mistake=mistake) for name, mistake in (_WRONG | _AROUND).items())]
    return tuple(each for each in every if fnmatch.fnmatch(each.name, only))
