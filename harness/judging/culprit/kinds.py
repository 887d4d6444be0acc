"""Kinds of mistakes that the values at a culprit prove: each has a code, a sentence and a cure.

They name a mistake where no rule of `harness.judging.explain` predicts the numbers of the whole run.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MistakeKind:
    """One of them.

    Attributes:
        code: of the diagnostic.
        says: what is wrong, in a sentence without a full stop.
        cure: what to do.
    """

    code: str
    says: str
    cure: str


MEAN = MistakeKind(
    "mean_of_own_examples",
    "each replica computes a mean over its own examples, where one device has those of the global batch",
    "Divide a loss by the global batch: tf.nn.compute_average_loss(losses, global_batch_size=...); a loss function for "
    "Keras's fit gives the losses of the examples. Put another mean together before it is used: "
    'tf.distribute.get_replica_context().all_reduce("MEAN", mean) where all replicas have equally many examples, else '
    "the sum and the count, each by all_reduce, and then their quotient.",
)
EXTREME = MistakeKind(
    "extreme_of_own_examples",
    "each replica takes the largest, or the smallest, of its own examples, where one device takes that of the global "
    "batch",
    "Gather what the replicas have and take it of that: tf.reduce_max(tf.distribute.get_replica_context().all_gather("
    "tf.expand_dims(extreme, 0), axis=0), axis=0); or tf.reduce_min where the smallest counts, as where all have to "
    "be finite. A loss that each replica then has whole is divided by the number of replicas.",
)
EXAMPLES = MistakeKind(
    "computed_over_own_examples",
    "each replica computes over its own examples what one device computes over the global batch",
    "Give each replica what all of them have: tf.distribute.get_replica_context().all_gather(x, axis=0) before what "
    "looks at several examples at once; or compute it for each example by itself. A loss that each replica then has "
    "whole is divided by the number of replicas.",
)
PARTS = MistakeKind(
    "computed_before_the_sum",
    "each replica computes of its part of a sum what one device computes of the whole",
    'Add up first, by tf.distribute.get_replica_context().all_reduce("SUM", x): gradients before they are clipped or '
    "normalized, and a count or a sum of squares before something is divided by it, or it is compared with a limit. "
    "Divide by the number of replicas what is added up once more afterwards. Of an optimizer of Keras 3 leave out "
    "clipnorm, clipvalue and global_clipnorm, which act before it adds up.",
)
ROWS = MistakeKind(
    "computed_of_repeated_rows",
    "an optimizer computes of each row of a sparse gradient what one device computes of the sum of an index's rows",
    "Adam, RMSprop, Adagrad and others of Keras 3 square each row of a sparse gradient by itself, so that what they "
    "keep depends on how many replicas look up the same row. Give them a dense gradient before apply_gradients, by "
    "tf.convert_to_tensor(gradient); or use the optimizer of tf_keras, which adds up the rows of an index first. Under "
    "fit let each example look up its own rows, such as those of positions.",
)
WHOLE = MistakeKind(
    "counted_by_each_replica",
    "each replica adds the whole of a term that one device adds once, and the replicas are then added up",
    "Divide the term by the number of replicas, as tf.nn.scale_regularization_loss does, and noise that each replica "
    "draws for itself by the square root of it. What each replica reads for itself, such as a count so far, needs the "
    "whole instead: "
    'tf.distribute.get_replica_context().all_reduce("SUM", part) before the term is added; and divide by the number of '
    "replicas what is added up once more afterwards.",
)
DIVIDED = MistakeKind(
    "divided_before_the_mean",
    "a term that is the same in all replicas is divided by their number, and then averaged over them",
    "Leave out the division: a mean over the replicas leaves whole what each of them has whole. Where they are added "
    "up with SUM the division is right.",
)
LOSS = MistakeKind(
    "whole_loss_in_each_replica",
    "each replica has the whole loss, and its gradients are added up over the replicas",
    "Divide by the number of replicas a loss that each replica has whole, since something in it was reduced or "
    "gathered over them; or give each replica its part of the loss.",
)
TWICE = MistakeKind(
    "added_up_twice",
    "what is the same in all replicas is added up over them once more",
    "Leave out one of the two sums; an optimizer's apply_gradients and a variable with aggregation=SUM add up by "
    "themselves. What each replica has whole, such as a count of steps, needs aggregation=ONLY_FIRST_REPLICA or MEAN. "
    "A tensor among the args of strategy.run is given to every replica whole: distribute a data set for each to have "
    "its own examples.",
)
NO_SUM = MistakeKind(
    "parts_not_added_up",
    "the parts of the replicas add up to what is right, and something else than their sum is made of them",
    "Reduce parts of a sum with SUM: strategy.reduce(tf.distribute.ReduceOp.SUM, ...), or all_reduce with SUM, of the "
    "parts alone where something that all replicas have is added to them. MEAN, as aggregation=MEAN of a variable, is "
    "for what each replica has whole. What was added up before needs no second sum.",
)
UPDATE = MistakeKind(
    "updated_by_each_replica",
    "each replica updates its copy of a variable by a part of its own",
    'Add up what is assigned: tf.distribute.get_replica_context().all_reduce("SUM", update), or make the variable with '
    "aggregation=tf.VariableAggregation.SUM; all_reduce with MEAN where each replica has a mean of its own examples. "
    "A variable that all replicas share, such as one made outside of the scope, is given the sum once: after "
    "strategy.run, in the cross-replica context.",
)
GIVEN = MistakeKind(
    "given_otherwise",
    "a step is given another number than on one device, such as a rate, a seed or noise",
    "Let it follow from what is the same for any number of workers, and after any restart: from a loss that "
    'strategy.reduce("SUM", ...) has added up over all replicas, and from a count of steps, or a tf.random.Generator, '
    "that is saved with the weights.",
)
BRANCH = MistakeKind(
    "branch_of_each_replica",
    "replicas take different branches by what each of them has alone",
    'Decide by what all of them have: tf.distribute.get_replica_context().all_reduce("SUM", number) before the '
    "condition.",
)
STATE = MistakeKind(
    "state_of_each_replica",
    "replicas compute different results although everything that they are given is the same",
    "Give state that replicas share one value: draw random numbers by seeds that all of them have, and make variables "
    "in the strategy's scope.",
)
SHARED = MistakeKind(
    "shared_by_replicas",
    "a variable has one copy for all replicas, and each of them changes it",
    "Make the variable in strategy.scope(), which gives each replica a copy; what all of them count alike, such as "
    "steps, needs aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA. Or change it once, outside of strategy.run.",
)
REPORT = MistakeKind(
    "reported_by_one_replica",
    "what was reported is what one replica has; the others have other values",
    'Reduce it over the replicas: strategy.reduce("SUM", value, axis=None) for parts of a sum, "MEAN" for means of '
    "equally many examples; experimental_local_results(value)[0] is the first replica's.",
)
NUMBER = MistakeKind(
    "number_of_replicas",
    "a number that the number of replicas goes into is another one on one device",
    "Write the number that is meant for any number of replicas: a global batch is that of all of them, as "
    "global_batch_size is, and a rate is the same on one device. Divide by the number of replicas only what is added "
    "up over them; on a mesh multiply and divide by no number of devices.",
)
DIVISION = MistakeKind(
    "used_before_the_division",
    "gradients are used before they are divided by the number of replicas",
    "Divide them directly after the sum, which all_reduce with MEAN does, and compute everything of the quotient. Or "
    "divide the loss by the global batch, and nothing after it.",
)
UNLIKE = MistakeKind(
    "parts_unlike_the_whole",
    "what is made for each device's part, or for each shard of a variable, is together not what one device has",
    "An operation on a mesh means the whole tensor: compute there, and not on unpacked parts, what looks at several "
    "rows at once. Pack the parts along their axis, in the order of the devices. Give each shard of a variable its own "
    "rows, counted from its first one, and compute what depends on all of them, such as a norm or a mean, over all "
    "shards.",
)
TIMES = MistakeKind(
    "scaled_by_devices",
    "what the devices of a mesh have together is as many times too large, or too small, as an axis has devices",
    "An operation on a mesh means the whole tensor: divide by the examples of the whole batch, and by no number of "
    "devices. Add up parts of a sum before they are packed as copies.",
)
KINDS: dict[str, MistakeKind] = {
    kind.code: kind
    for kind in (
        *(MEAN, EXTREME, EXAMPLES, PARTS, ROWS, WHOLE, DIVIDED, LOSS, TWICE, NO_SUM),
        *(UPDATE, GIVEN, BRANCH, STATE, SHARED, REPORT, NUMBER, DIVISION),
        *(UNLIKE, TIMES),
    )
}
"""By their codes."""
