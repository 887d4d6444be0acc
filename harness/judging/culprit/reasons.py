"""Why the result of an operation means something else on several replicas, as far as its values prove it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.evidence.watched_step import REPLICA, Op
from harness.judging.culprit.alignment import Alignment, OperationNode
from harness.judging.culprit.branch import carried_out_by
from harness.judging.culprit.client_step import ARRIVED, assigns
from harness.judging.culprit.kinds import (
    BRANCH,
    DIVIDED,
    EXAMPLES,
    EXTREME,
    LOSS,
    MEAN,
    NO_SUM,
    NUMBER,
    PARTS,
    SHARED,
    STATE,
    TWICE,
    UPDATE,
    WHOLE,
    MistakeKind,
)
from harness.judging.culprit.relations import LARGEST, PARTIAL, REPLICATED, SPLIT, Relation, are_padded, are_same_rows
from harness.judging.culprit.scene import Reduction, Scene, scene_of
from harness.judging.culprit.walk import BRANCHES, CALLS, Mode, Walk, WrongOperation, is_extreme

if TYPE_CHECKING:
    import numpy as np


_RANDOM = ("Random", "Stateless", "Multinomial", "TruncatedNormal", "ParameterizedTruncatedNormal")
_ADDING = ("AssignAddVariableOp", "AssignSubVariableOp")
_VARIABLES = ("ReadVariableOp", "ResourceGather", "VariableV2")
ADDITIONS = ("Add", "AddV2", "AddN", "Sub", "BiasAdd")
_MEANS = ("Mean",)
_OF_WHOLE_LOSS = (
    "each replica has the whole loss, whose gradients are added up over the replicas: they come out as often as there "
    "are replicas"
)
_DEVIATIONS = ("reduce_variance", "reduce_std")
"""Scopes of functions of TensorFlow's that begin with a mean."""
_OWN_ORDER = "each replica puts its own examples into another order, where one device does so with all of them"
_CHOOSING = ("TopK", "TopKV2")
"""They choose among examples, so that what each replica has is no part of what one device has."""
_ROUNDED = 1e-2
"""A factor is told as a whole number if the values have it but for this share."""


def reason(aligned: Alignment, broken: WrongOperation, summed: Reduction | None) -> tuple[MistakeKind | None, str]:
    """What is wrong with the result of an operation, and of which kind that is: the first that its values prove.

    Args:
        aligned: run and reference.
        broken: the operation.
        summed: what puts together what comes from it.
    """
    scene = scene_of(aligned, broken.node, summed)
    if scene is None:
        return _reduced(aligned, broken.node)
    if (found := _proved(scene)) is not None:
        return found
    if broken.mode is not Mode.SCALED:
        return _taken_of_first(aligned, broken.node) or (None, _unrelated(scene))
    return (LOSS, _OF_WHOLE_LOSS) if _has_whole_loss(scene) else (None, _scaled(scene))


def _has_whole_loss(scene: Scene) -> bool:
    """Whether each replica has the right loss, whole, of which gradients are then added up."""
    side = scene.aligned.sides[0]
    made = [(op, tensor) for tensor in side.watched.targets if (op := side.producer(tensor)) is not None]
    numbers = [scene.aligned.truths.get(OperationNode(0, op.number)) for op, _ in made]
    found = [
        number is not None and scene.aligned.output(number, op.outputs.index(tensor))
        for number, (op, tensor) in zip(numbers, made, strict=True)
    ]
    adds = scene.summed is not None and not scene.summed.averages
    return adds and bool(found) and all(relations and Relation(REPLICATED) in relations for relations in found)


def _proved(scene: Scene) -> tuple[MistakeKind | None, str] | None:
    every = ((kind, prove(scene)) for kind, prove in _PROOFS)
    return next(((kind, found) for kind, found in every if found is not None), None)


def _reduced(aligned: Alignment, node: OperationNode) -> tuple[MistakeKind | None, str]:
    """Of what only the run does, such as a sum over replicas, by what goes into it."""
    if assigns(op := aligned.op(node)):
        return UPDATE, f"each replica gives its copy of variable {op.variable!r} what it computes from its own examples"
    if some := carried_out_by(aligned, node.client, op):
        who = f"replica {some[0]}" if len(some) == 1 else f"replicas {', '.join(map(str, some))}"
        count = len(aligned.places[REPLICA])
        return BRANCH, f"of {count} replicas only {who} came here: each takes a branch by what it has alone"
    relations = _entering(aligned, node)
    if Relation(REPLICATED) in relations and aligned.sides[node.client].is_within_gradient(op):
        return LOSS, _OF_WHOLE_LOSS
    if Relation(REPLICATED) in relations:
        return TWICE, (
            "it adds up over the replicas what is the same in each of them already, so that it comes out as often as "
            "there are replicas"
        )
    if Relation(PARTIAL) in relations:
        return NO_SUM, "the parts of the replicas add up to the reference's value; what comes out here is not their sum"
    return _taken_of_first(aligned, node) or (None, "what comes out over the replicas is not the reference's value")


def _taken_of_first(aligned: Alignment, node: OperationNode) -> tuple[MistakeKind, str] | None:
    """Of a variable that takes what the first replica has, where each has a part of a sum."""
    side, line = aligned.sides[node.client], aligned.op(node).caller
    changed = (aligned.variables.get(op.variable) for op in side.assigning() if op.caller == line)
    taking = next((each for each in changed if each is not None and each.aggregation == "ONLY_FIRST_REPLICA"), None)
    made = (op for op in side.watched.ops if op.zone == REPLICA and op.caller == line)
    known = (aligned.truths.get(OperationNode(node.client, op.number)) for op in made if op.outputs)
    related = (aligned.output(number) or frozenset() for number in known if number is not None)
    if taking is None or not any(Relation(PARTIAL) in each and Relation(REPLICATED) not in each for each in related):
        return None
    return UPDATE, (
        f"variable {taking.name!r} was made with aggregation=ONLY_FIRST_REPLICA, which takes what the first replica "
        "has: a part of a sum"
    )


def _times(relation: Relation, replicas: int) -> str:
    factor = replicas ** abs(relation.power)
    return f"{factor} times" if relation.power > 0 else f"1/{factor} of"


def _entering(aligned: Alignment, node: OperationNode) -> frozenset[Relation]:
    """How the first value that it is computed from, and that is in any relation, is related to the reference's."""
    for tensor in Walk(aligned, node.client, Mode.UNRELATED).aligned_before(node):
        op = aligned.sides[node.client].producer(tensor)
        if op is not None and (
            found := aligned.output(aligned.truths[OperationNode(node.client, op.number)], op.outputs.index(tensor))
        ):
            return found
    return frozenset()


def _aggregated_twice(scene: Scene) -> str | None:
    import numpy as np

    variable = scene.aligned.variables.get(scene.op.variable) if assigns(scene.op) else None
    if variable is None or variable.aggregation != "SUM" or variable.kind == "on_read":
        return None
    count = scene.aligned.replicas
    for _, value, parts in scene.inputs:
        if value.any() and all(part.shape == value.shape and np.allclose(part, count * value) for part in parts):
            return (
                f"variable {variable.name!r} was made with aggregation=SUM, which adds up over the replicas what is "
                "the same in each of them already"
            )
    return None


def _updated_apart(scene: Scene) -> str | None:
    if not assigns(scene.op) or scene.op.zone != REPLICA:
        return None
    for relations, _, _ in scene.inputs:
        if Relation(PARTIAL) in relations and Relation(REPLICATED) not in relations:
            return (
                f"each replica changes its copy of variable {scene.op.variable!r} by a part of its own; the parts have "
                "not been added up over the replicas"
            )
    return f"variable {scene.op.variable!r} is given in each replica what it is not given in the reference"


def _given_otherwise(scene: Scene) -> str | None:
    if not assigns(scene.op):
        return None
    return f"variable {scene.op.variable!r} is given there what it is not given in the reference"


def adds_to_one_copy(aligned: Alignment, op: Op) -> bool:
    """Whether a replica adds to a variable, or takes from it, of which there is one copy for all of a process."""
    variable = aligned.variables.get(op.variable) if op.zone == REPLICA and op.type in _ADDING else None
    return variable is not None and variable.kind == "plain" and aligned.replicas > len(aligned.sides)


def _shared(scene: Scene) -> str | None:
    """A variable of one copy that each replica changes: by the same, or so that another one reads what it has made."""
    import numpy as np

    if adds_to_one_copy(scene.aligned, scene.op) and any(Relation(REPLICATED) in each for each, *_ in scene.inputs):
        return f"each replica adds the same to variable {scene.op.variable!r}, of which there is one copy for all"
    variable = scene.aligned.variables.get(scene.op.variable) if scene.op.type == "ReadVariableOp" else None
    if variable is None or variable.kind != "plain" or scene.value is None:
        return None
    right = [np.array_equal(part, scene.value) for part in scene.parts]
    if all(right) or not any(right) or len(right) == len(scene.aligned.sides):  # each in a process of its own
        return None
    return (
        f"variable {variable.name!r} has one copy, which all replicas change: one reads what another has made of it "
        "in the same step"
    )


def _begins_scaled(scene: Scene) -> str | None:
    best = min(scene.relations, key=lambda each: abs(each.power), default=None)
    if scene.op.type != "ReadVariableOp" or best is None or best.right:
        return None
    return f"variable {scene.op.variable!r} begins with {_times(best, scene.replicas)} the reference's value"


def _begins_wrong(scene: Scene) -> str | None:
    if scene.op.type != "ReadVariableOp":
        return None
    begins = "is read" if any(side.is_changed_before(scene.op) for side in scene.aligned.sides) else "begins"
    return f"variable {scene.op.variable!r} {begins} with another value than in the reference"


def _other_number(scene: Scene) -> str | None:
    """A number that the program gives: nothing that an operation gives goes into it."""
    best = min(scene.relations, key=lambda each: abs(each.power), default=None)
    if scene.value is None or scene.value.size != 1 or best is None or best.right or scene.op.type in _VARIABLES:
        return None
    if len({part.tobytes() for part in scene.parts}) > 1:  # each has computed it, out of sight
        return None
    made = map(scene.aligned.sides[scene.node.client].producer, filter(None, scene.op.inputs))
    if not all(each is None or each.type in ("Const", *ARRIVED) for each in made):
        return None
    ours, theirs = (f"{float(each.reshape(-1)[0]):.6g}" for each in (scene.parts[0], scene.value))
    return f"a number here is {ours}, and {theirs} on one device"


def _branched(scene: Scene) -> str | None:
    """A branch of a graph, whose condition each replica computes by itself."""
    import numpy as np

    condition = next((parts for _, _, parts in scene.inputs), None) if scene.op.type in BRANCHES else None
    if condition is None or condition[0].ndim or condition[0].dtype.kind not in "biu":
        return None
    if all(np.array_equal(part, condition[0]) for part in condition):
        return None
    return "the replicas take different branches: each decides by what it has alone"


def _own_mean(scene: Scene) -> str | None:
    if (mean := _of_own_examples(scene)) is None:
        return None
    own, then = mean
    where = f"; {scene.summed.text} over the replicas" if scene.summed else ""
    return f"each replica's mean is over its own {own} examples; {then}{where}"


def _own_deviation(scene: Scene) -> str | None:
    """A variance, or its root, about a mean of own examples: the mean of such is not that of all."""
    scope = next((each for each in _DEVIATIONS if f"/{each}/" in f"/{scene.op.name}"), None)
    if scope is None or (mean := _of_own_examples(scene)) is None:
        return None
    return f"each replica's {scope} is about the mean of its own {mean[0]} examples, which is not that of all"


def _of_own_examples(scene: Scene) -> tuple[str, str] | None:
    """Of a mean over a replica's own examples of how many, and what is right: `n_r p_r` add up to N times the value."""
    import numpy as np

    rows = next(((value, parts) for relations, value, parts in scene.inputs if _is_split(relations)), None)
    if scene.value is None or rows is None or scene.op.type not in _MEANS:
        return None
    value, parts = rows
    counts, total = [part.shape[0] for part in parts], value.shape[0]
    if sum(counts) != total or any(part.shape != scene.value.shape for part in scene.parts):
        return None
    with np.errstate(all="ignore"):
        weighted = sum(
            count * part.astype(np.float64) for count, part in zip(counts, scene.parts, strict=True) if count
        )
        if not np.allclose(weighted, total * scene.value.astype(np.float64), rtol=1e-4, atol=1e-30):
            return None
    if len(set(counts)) == 1:
        own, then = f"{counts[0]} of {total}", f"the mean of {scene.all_of_them} is the reference's value"
    else:
        own = f"{', '.join(map(str, counts))} of {total}"
        then = "their mean, weighted by these, is the reference's value"
    return own, then


def _counted_by_each(scene: Scene) -> str | None:
    """A sum of a part and of something that every replica has whole: it counts as often as there are replicas."""
    import numpy as np

    if scene.op.type not in ADDITIONS or scene.value is None or len(scene.inputs) < 2:
        return None
    if _is_kept(scene):
        return None  # nothing counts as often as there are replicas
    signs = (1.0, -1.0) if scene.op.type == "Sub" else (1.0,) * len(scene.inputs)
    more, rounded = [], []
    for sign, (relations, value, parts) in zip(signs, scene.inputs, strict=True):
        if Relation(REPLICATED) in relations:
            more.append(sign * (scene.replicas - 1) * parts[0].astype(np.float64))
        elif Relation(PARTIAL) in relations:  # in 16 bits the parts add up to what they should but for much
            rounded.append(sign * (np.sum(parts, axis=0, dtype=np.float64) - value.astype(np.float64)))
    if not more or not rounded:
        return None
    total = np.sum(scene.parts, axis=0, dtype=np.float64) - sum(rounded)
    if not np.allclose(total, scene.value.astype(np.float64) + sum(more), rtol=1e-4, atol=1e-30):
        return None
    return (
        "each replica adds the whole of what one device adds once to its part of the rest; in a sum over "
        f"{scene.all_of_them} replicas that counts {scene.replicas} times, and in a mean the parts count too little"
    )


def _is_kept(scene: Scene) -> bool:
    """Whether a variable is given what a replica has, as it is or averaged, and no gradient is taken of it."""
    op = scene.op
    if op.zone != REPLICA or op.differentiates or not (scene.summed is None or scene.summed.averages):
        return False
    return not Walk(scene.aligned, scene.node.client, Mode.UNRELATED).is_differentiated(op.number)


def _divided_before_mean(scene: Scene) -> str | None:
    if scene.summed is None or not scene.summed.averages or Relation(REPLICATED, -1) not in scene.relations:
        return None
    count = scene.replicas
    return f"each replica has 1/{count} of the reference's value; {scene.summed.text}, which leaves 1/{count} of it"


def _random(scene: Scene) -> str | None:
    import numpy as np

    if not scene.op.type.startswith(_RANDOM) or scene.op.type in CALLS or not scene.parts:
        return None
    same = len({part.shape for part in scene.parts}) == 1 and all(
        np.array_equal(part, scene.parts[0]) for part in scene.parts
    )
    if same and len(scene.parts) > 1:
        return "all replicas draw the same random numbers, and use them for other examples"
    return "the replicas draw other random numbers than the reference"


def _before_the_sum(scene: Scene) -> str | None:
    """What is no sum, of parts that have not been added up: a norm, a threshold, a product of two parts."""
    # Of few numbers, such as signs, one is the largest or the smallest by accident.
    if (scene.relations and not is_extreme(scene.relations)) or scene.op.zone != REPLICA or not _of_parts(scene):
        return None
    return (
        "it is computed of what each replica has alone, before that was added up over the replicas; of the sum it "
        "would be another value"
    )


def _of_parts(scene: Scene) -> bool:
    """Whether it is computed of parts of a sum; of a number of rows, such as the k of a `top_k`, that says nothing."""
    rows = any(_is_split(relations) for relations, _, _ in scene.inputs)
    return any(
        any(each.kind == PARTIAL for each in relations)
        and not any(each.kind in (REPLICATED, SPLIT) for each in relations)
        and not (rows and value.dtype.kind in "iu")
        for relations, value, _ in scene.inputs
    )


def _own_extreme(scene: Scene) -> str | None:
    if not is_extreme(scene.relations) or _of_parts(scene) or scene.op.type in ("Const", *ARRIVED):
        return None
    which = "largest" if any(each.kind == LARGEST for each in scene.relations) else "smallest"
    return f"each replica takes the {which} of its own examples, and goes on with it as if it were that of all"


def _own_examples(scene: Scene) -> str | None:
    if scene.relations or not any(_is_split(relations) for relations, _, _ in scene.inputs):
        return None
    if scene.value is not None and scene.value.ndim and scene.parts and scene.op.type not in _CHOOSING:
        rows = sum(part.shape[0] for part in scene.parts if part.ndim)
        if rows == scene.value.shape[0] and all(part.shape[1:] == scene.value.shape[1:] for part in scene.parts):
            # Else each has what is computed of its own examples.
            return _OWN_ORDER if any(_reorders(scene, *each) for each in scene.inputs) else None
    return "it is computed over each replica's own examples, where the reference has all of them"


def _reorders(
    scene: Scene, relations: frozenset[Relation], value: np.ndarray[Any, Any], parts: list[np.ndarray[Any, Any]]
) -> bool:
    """Whether it gives the rows of an operand in another order, in the run as on one device."""
    pairs = zip((scene.value, *scene.parts), (value, *parts), strict=False)
    return _is_split(relations) and all(one is not None and are_same_rows(one, other) for one, other in pairs)


def _padded(scene: Scene) -> str | None:
    """What depends on how long the rows of a batch are, of which each replica pads its own."""
    padded = any(are_padded(value, parts) and _is_split(relations) for relations, value, parts in scene.inputs)
    if scene.relations or not padded:
        return None
    return "each replica pads its batch to the longest of its own examples, and this depends on how long that is"


def _apart(scene: Scene) -> str | None:
    """Equal operands, unlike results: replicas have a state of their own."""
    import numpy as np

    if len(scene.parts) < 2 or not scene.inputs or not scene.all_seen:
        return None
    if not all(Relation(REPLICATED) in relations for relations, _, _ in scene.inputs):
        return None
    if all(np.array_equal(part, scene.parts[0]) for part in scene.parts):
        return None
    return "the replicas give unlike results although everything that they are given is the same"


def _is_split(relations: frozenset[Relation]) -> bool:
    return any(relation.kind == SPLIT for relation in relations)


def _unrelated(scene: Scene) -> str:
    if scene.op.type in ("Const", *ARRIVED):
        return "what comes from the program here is not what one device is given"
    what = "what it gives is in no relation to the reference's value"
    if not all(relations for relations, _, _ in scene.inputs):
        return f"{what}, and neither is all that it is computed from"
    seen = "everything that" if scene.all_seen else "all that was seen of what"
    return f"{what}, although {seen} it is computed from is"


def _scaled(scene: Scene) -> str:
    best = min(scene.relations, key=lambda each: (abs(each.power), each.kind != PARTIAL), default=None)
    if best is None:
        return "what it gives is another multiple of the reference's value"
    times = _times(best, scene.replicas)
    if (measured := _measured(scene, best)) is not None and abs(measured * scene.replicas**-best.power - 1) > _ROUNDED:
        times = f"{measured:.3g} times"  # which rounding does not tell from the factor
    who = "the parts of the replicas add up to" if best.kind == PARTIAL else "each replica has"
    where = f"; {scene.summed.text} over the replicas" if scene.summed else ""
    return f"{who} {times} the reference's value{where}"


def _measured(scene: Scene, relation: Relation) -> float | None:
    """The factor that the values themselves have; None where they are not kept, or vanish."""
    import numpy as np

    if scene.value is None or any(part.shape != scene.value.shape for part in scene.parts):
        return None
    truth = scene.value.astype(np.float64)
    found = np.sum(scene.parts, axis=0, dtype=np.float64) if relation.kind == PARTIAL else scene.parts[0]
    size = float(np.sum(truth * truth))
    return float(np.sum(truth * found)) / size if 0 < size < np.inf else None


_PROOFS: tuple[tuple[MistakeKind | None, Callable[[Scene], str | None]], ...] = (
    (TWICE, _aggregated_twice),
    (SHARED, _shared),
    (UPDATE, _updated_apart),
    (None, _given_otherwise),
    (NUMBER, _begins_scaled),
    (None, _begins_wrong),
    (NUMBER, _other_number),
    (BRANCH, _branched),
    (None, _random),
    (None, _padded),
    (EXAMPLES, _own_deviation),
    (MEAN, _own_mean),
    (WHOLE, _counted_by_each),
    (DIVIDED, _divided_before_mean),
    (STATE, _apart),
    (EXTREME, _own_extreme),
    (PARTS, _before_the_sum),
    (EXAMPLES, _own_examples),
)
"""From what is proved in numbers to what is only likely."""
