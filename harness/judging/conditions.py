"""What a verdict takes as given: a choice that one device would not make, which is no mistake by itself.

A run may rightly train in an order of its own, or draw the same mask on two replicas. What it computes from that is
judged all the same; who wants to train as one device would asks for `--strict`, by which each of these is a finding.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.evidence.observed import history
from harness.evidence.trace import EVALUATE, RunTrace
from harness.evidence.witness_values import for_coordinator, rows_of
from harness.judging.explain.causes import cause_of
from harness.judging.explain.causes.shuffled_shard import SHUFFLED_SHARD
from harness.judging.given_back import GivenNumber, given_numbers, incomparable, means_of_evaluations, means_of_steps
from harness.judging.laws.protocol import Case, Judgement, not_judged
from harness.judging.placed_work import placed_by_hand
from harness.judging.wording import first_ones
from harness.relations import COARSE, Proof

EQUAL_DRAWS, ORDER, DRAWN_DATA = "equal_draws", "order_of_examples", "drawn_examples"
OWN, OWN_SHARES, OWN_STATISTICS, SHUFFLED_APART = "own", "own_shares", "own_statistics", "shuffled_apart"
PLACED, UNREAD, COUNTED = "placed_by_hand", "unread_state", "count_of_replicas"
REPEATED_DRAWS, BY_PROOF = "repeated_draws", "by_proof"
PYTHON_STATE, PYTHON_ROWS = "python_state", "python_rows"
GIVEN_BACK, ENDED_BY_HAND = "given_back", "ended_by_hand"
CONDITIONS = {
    EQUAL_DRAWS: (
        "replicas draw the same numbers for different examples, as Keras does by its seeds",
        "Draw in the input pipeline, before the batch is divided.",
    ),
    ORDER: (
        "the run has the examples of one device in an order of its own",
        "Shuffle before the data is sharded, with one seed for all workers.",
    ),
    DRAWN_DATA: ("which examples the run has is drawn, and one device draws others", "Give what draws them a seed."),
    OWN: (
        "each replica computes from numbers, or a state, that it has for itself",
        "Draw once for all replicas, or for each example; keep one state, with aggregation=MEAN or SUM.",
    ),
    OWN_SHARES: (
        "each worker reads a share of its own, of which one device does not know whether it is right",
        "Leave sharding to strategy.experimental_distribute_dataset, or to an InputContext.",
    ),
    OWN_STATISTICS: (
        "each replica normalises by its own batch",
        "Synchronize: keras.layers.BatchNormalization(synchronized=True).",
    ),
    SHUFFLED_APART: (
        "each worker shuffles all examples before its shard is taken, so that some come more often than others",
        "Give the shuffle one seed for all workers, or shuffle after the shard.",
    ),
    PLACED: ("the program places its work on devices itself, by tf.device", "Leave it to the strategy."),
    UNREAD: ("what copies of a variable hold that nobody has read is not compared", "Read it in the program."),
    COUNTED: (
        "the number of replicas is meant where the program asks for it, as for a rate; on one device it is 1",
        "Write the number, or divide the sum over replicas by it.",
    ),
    REPEATED_DRAWS: (
        "after a restart the run draws numbers again that it had drawn",
        "Save the generator: tf.train.Checkpoint(generator=tf.random.get_global_generator(), ...).",
    ),
    BY_PROOF: ("a proof speaks for variables of which rounding hides what a step adds", "Train them in float32."),
    PYTHON_STATE: (
        "the program's own Python gives more than its arguments and generators say, as by a state",
        "Give it what it depends on as an argument.",
    ),
    PYTHON_ROWS: (
        "the program's own Python draws for an example by the examples beside it",
        "Draw for each example by itself, or by a statistic of the whole data set.",
    ),
    GIVEN_BACK: (
        "what a call gives back to the program, such as a loss that it prints, is not what one device gives",
        'Reduce parts of a sum by strategy.reduce("SUM", ...), and means of equally many examples by "MEAN".',
    ),
    ENDED_BY_HAND: (
        "the script was ended before it had taken any gradients",
        "Have more of its steps judged, with a larger --first.",
    ),
}
"""By its code what each says, and what to do for a run without it."""
_SHOWN = 4
_EXAMPLES, _ROWS, _IN_TURN = "examples_match_reference", "rows_whole", "examples_in_turn"
_VARIABLES = "variables_match_reference"
SHUFFLED = "shuffle_before_shard"
"""The cause of `harness.judging.explain.causes` that is a condition."""
_ORDER_TEXT = "the run's own order of examples, which is not that of one device"
_OF_WORKERS_TEXT = (
    "that each worker of a coordinator reads data of its own, in its own order, and from the beginning after a restart"
)


@dataclass(frozen=True)
class Condition:
    """One of them: its code, and what it is in words."""

    code: str
    text: str


def conditions_of(case: Case, judgements: Sequence[Judgement]) -> tuple[tuple[Judgement, ...], tuple[Condition, ...]]:
    """The judgements without those that only a condition breaks, and the conditions.

    Args:
        case: a run, and a reference that followed it.
        judgements: what the laws say of it.
    """
    found = [*_equal_draws(case.reference), *_own_statistics(case.reference), *_by_python(case.reference)]
    found += [*_placed(case.run), *_unread(case.run), *_given_back(case, judgements), *_ended_by_hand(case.run)]
    in_turn = any(judgement.law == _IN_TURN and judgement.status == "held" for judgement in judgements)
    shares = _cut_by_worker(case.run, case.reference, in_turn=in_turn)
    broken = {judgement.law for judgement in judgements if judgement.status == "broken"}
    order = _EXAMPLES in broken and _is_order_only(case)
    apart = _shuffled_apart(case) if broken & {_EXAMPLES, _IN_TURN} else None
    found += [] if apart is None else [apart]
    kept = []
    for judgement in judgements:
        if apart is not None and judgement.law in (_EXAMPLES, _IN_TURN):
            kept.append(not_judged(judgement.law, apart.text))
            continue
        if judgement.law in (_EXAMPLES, _IN_TURN) and judgement.status == "broken" and for_coordinator(case.run):
            kept.append(not_judged(judgement.law, _OF_WORKERS_TEXT))
            found.append(Condition(OWN_SHARES, _OF_WORKERS_TEXT))
            continue
        if judgement.law == _ROWS and judgement.status == "broken" and shares is not None:
            kept.append(not_judged(_ROWS, "one device reads the examples of the first worker only"))
            found.append(shares)
            continue
        if judgement.law == _EXAMPLES and order:
            kept.append(replace(judgement, status="held", findings=()))
            found.append(_order(case.reference))
        else:
            kept.append(judgement)
    if shares is None and _EXAMPLES not in broken:
        compared = any(judgement.law == _EXAMPLES and judgement.status == "held" for judgement in judgements)
        found += _drawn(case.reference, compared=compared)
    return tuple(kept), tuple(dict.fromkeys(found))


def _order(reference: RunTrace) -> Condition:
    """That the run has an order of its own; and where its batches have other sizes, that too."""
    whole = reference.clients[0].counters.all_examples
    if whole is None or not all(whole.sizes):
        return Condition(ORDER, _ORDER_TEXT)
    run, own = whole.sizes
    return Condition(ORDER, f"{_ORDER_TEXT}, and batches of other sizes, such as {run} examples where that has {own}")


def _drawn(reference: RunTrace, *, compared: bool) -> Iterator[Condition]:
    """That the run was given other examples; where they are `compared`, they are the same as far as that shows."""
    counters = reference.clients[0].counters
    whole, others = counters.all_examples, counters.others
    if not others or (compared and (whole is None or not whole.number)):
        return
    if whole is not None and not whole.others:
        yield _order(reference)
        return
    steps = "1 step" if others == 1 else f"{others} steps"
    yield Condition(DRAWN_DATA, f"the run's own examples at {steps}, which one device does not draw")


def by_proof(law: Judgement, proof: Proof | None) -> Condition | None:
    """What a proof says of variables whose numbers show too little, because rounding may do as much; None if nothing.

    A proof is of exact arithmetic. So it does not speak of what each run computes otherwise, nor while one of its
    conditions is not known to be met; that numbers of 16 bits stay within their dtype is seen by other laws.
    """
    if not law.unseen or law.drawn or not proof:
        return None
    if any(each.what != COARSE and (each.met is None or each.met.broken) for each in proof.conditions):
        return None
    names = shown([repr(name) for name in law.unseen])
    return Condition(BY_PROOF, f"that the proof speaks for {names}, of which rounding hides what a step adds")


def given(conditions: Sequence[Condition]) -> Iterator[str]:
    """In words."""
    for condition in conditions:
        yield f"given {condition.text}"


def _equal_draws(reference: RunTrace) -> Iterator[Condition]:
    draws = [draw for step in reference.clients[0].steps if step.seen for draw in step.seen.draws]
    for kind, who in (("equal", "Keras draws"), ("equal_by_process", "one seed for all processes draws")):
        found = (draw.where for draw in draws if draw.kind == kind and (draw.by_keras or kind != "equal"))
        if places := ", ".join(dict.fromkeys(found)):
            text = f"that {who} the same numbers on several replicas, for different examples: {places}"
            yield Condition(EQUAL_DRAWS, text)


def _own_statistics(reference: RunTrace) -> Iterator[Condition]:
    if places := _places(reference, "statistics"):
        yield Condition(OWN_STATISTICS, f"that each replica normalises by its own batch: {shown(places)}")


def _by_python(reference: RunTrace) -> Iterator[Condition]:
    texts = {
        "state": (PYTHON_STATE, "what Python gives by more than its arguments and generators, such as a state"),
        "mixed_rows": (PYTHON_ROWS, "what Python draws for an example by the examples beside it, such as their mean"),
    }
    for kind, (code, text) in texts.items():
        if places := _places(reference, kind):
            yield Condition(code, f"{text}: {shown(places)}")


def _places(reference: RunTrace, kind: str) -> list[str]:
    """Where such draws were."""
    seen = (step.seen for step in reference.clients[0].steps)
    return list(dict.fromkeys(draw.where for each in seen if each for draw in each.draws if draw.kind == kind))


def _placed(run: RunTrace) -> Iterator[Condition]:
    if devices := placed_by_hand(run):
        text = f"that the program places its work on {shown(devices)} itself: the strategy divides nothing"
        yield Condition(PLACED, text)


def _unread(run: RunTrace) -> Iterator[Condition]:
    if names := dict.fromkeys(name for client in run.clients for name in client.counters.unread):
        which = shown([repr(name) for name in names])
        yield Condition(UNREAD, f"what {which} holds, of which each replica keeps its own until it is read")


def _ended_by_hand(run: RunTrace) -> Iterator[Condition]:
    client = run.clients[0]
    if client.counters.cut is not None and all(seen.by_hand for seen in client.seen):
        text = (
            f"that the script takes no gradients after its first {client.counters.cut} steps, with which it was ended"
        )
        yield Condition(ENDED_BY_HAND, text)


def _given_back(case: Case, judgements: Sequence[Judgement]) -> Iterator[Condition]:
    """What calls give back to the program that is not what one device gives, such as a loss that it prints.

    A step that gives what a metric keeps gives another number once one device has not seen all before it. What
    the program reports as its loss is judged as that. What replicas that stand for wholes give back is a mean. What a
    wrong step gives back follows from that, and after it no evaluation by Keras is what it should be.
    """
    if case.interruption is not None or case.where or case.wholes:  # a part has only some of the reference's calls
        return
    replicas = case.run.header.replicas
    steps = (found.step for law in judgements if law.law == _VARIABLES for found in law.findings)
    wrong = min((step for step in steps if step is not None), default=math.inf)
    losses = {each.array.tobytes() for found in history(case.run, "loss").values() for each in found.values()}
    for of_steps, given in ((each, given) for each in (True, False) for given in given_numbers(case, steps=each)):
        if of_steps and all(one.observed.array.tobytes() in losses for one in given.numbers):
            continue
        follows = of_steps or given.name == EVALUATE
        numbers = [one for one in given.numbers if not follows or one.step < wrong]
        every = [one.compared() for one in (numbers if given.name == EVALUATE else _in_turn(numbers))]
        if not every:
            continue
        factor, first = given.factor(replicas), next((one for one in every if one.ratio > 1), every[0])
        what = f"that what {given.called} gives back is"
        if factor is None and of_steps and first.observed is not None and first.ratio > 1:
            yield Condition(GIVEN_BACK, f"{what} {first.observed:.6g} where one device gets {first.expected:.6g}")
        elif factor not in (None, 1.0):
            times = f"{replicas} times" if factor == replicas else f"1/{replicas} of"
            yield Condition(GIVEN_BACK, f"{what} {times} what one device gets")
    for text in (*incomparable(case), *_means_of_calls(case)):
        yield Condition(GIVEN_BACK, f"that {text}")


def _in_turn(numbers: Sequence[GivenNumber]) -> Iterator[GivenNumber]:
    """The first of them, until a step is left out."""
    last = 0
    for one in numbers:
        if one.step > last + 1:
            return
        yield one
        last = one.step


def _means_of_calls(case: Case) -> Iterator[str]:
    """In words, which means that Keras metrics keep count each replica's call, of which one has fewer examples."""
    of_steps = zip(means_of_steps(case), means_of_steps(case, of_calls=True), strict=True)
    of_evaluations = zip(means_of_evaluations(case), means_of_evaluations(case, of_calls=True), strict=True)
    for judged, given in (*of_steps, *of_evaluations):
        apart = next((found for one in given.numbers if (found := one.compared()).ratio > 1), None)
        if apart is not None and judged.factor(1) == 1.0:
            numbers = f"{apart.observed:.6g} where one device has {apart.expected:.6g}"
            yield f"{judged.called} is a mean of what replicas give at each call, {numbers}"


def shown(places: Sequence[str]) -> str:
    """The first few of them, and how many more there are."""
    return first_ones(places, _SHOWN)


def _cut_by_worker(run: RunTrace, reference: RunTrace, *, in_turn: bool) -> Condition | None:
    """That workers have shares of their own, where the reference of a script reads that of the first worker.

    At each step it has what the run has, but for the other workers' rows, none of which any two workers have; in a
    later epoch one may have another's, if examples come again `in_turn`.
    """
    told = reference.clients[0].counters.stand_ins
    place = next((each for each in told if each.what == "TF_CONFIG"), None)
    given = [step.seen.given for step in reference.clients[0].steps if step.seen is not None and step.seen.given]
    if place is None or not given or any(each.others != each.rows - each.own or not each.others for each in given):
        return None
    rows = [set(_examples(RunTrace((client,)))) for client in run.clients]
    if len(rows) < 2 or not all(rows):
        return None
    if len(set().union(*rows)) < sum(map(len, rows)) and not (in_turn and _apart_at_each_step(run)):
        return None
    text = (
        f"that each worker reads examples of its own, by its number ({place.where}); whether they are all is not judged"
    )
    return Condition(OWN_SHARES, text)


def _apart_at_each_step(run: RunTrace) -> bool:
    """Whether no two workers have an example in the same step."""
    found: dict[int, Counter[int]] = {}
    for client in run.clients:
        for step in client.steps:
            found.setdefault(step.index, Counter()).update(set(rows_of(step.seen)) if step.seen else ())
    return all(max(each.values(), default=0) < 2 for each in found.values())


def _shuffled_apart(case: Case) -> Condition | None:
    """That workers shuffle before they take their shards, where nobody has reported which examples they have.

    This is what TensorFlow makes of a shuffle without a seed if it shards a program's data by itself. A worker that
    reads everything is another cause, and a program that calls `shard`, or gives each worker a data set of its own,
    shards by itself.
    """
    run, reference = case.run.clients[0].counters, case.reference.clients[0].counters
    by_hand = any(each.what == "InputContext" for each in reference.stand_ins) or any(
        pipeline.distributed == "function" or any(made.kind == "Shard" for made in pipeline.made)
        for pipeline in run.pipelines
    )
    by_hand |= all(pipeline.distributed is None for pipeline in run.pipelines)
    seen = case.run.examples_are_seen and case.reference.examples_are_seen
    cause = cause_of(case) if seen and not by_hand else None
    if cause is None or cause.cause != SHUFFLED:
        return None
    text = (
        "that each worker shuffles all examples in an order of its own before TensorFlow takes its shard of them, so "
        "that some come more often than others; with one seed for all of them they shuffle alike"
    )
    return Condition(SHUFFLED_APART, text)


def _is_order_only(case: Case) -> bool:
    """Whether both have had the same examples, each as often.

    Where a program reports which they are, an order is its own only if workers shuffle shards that they had cut, or if
    it was started again and shuffles without a seed.
    """
    if case.run.examples_are_seen and case.reference.examples_are_seen:
        return _examples(case.run) == _examples(case.reference)
    if case.interruption is not None and any(client.counters.dataset_orders for client in case.run.clients):
        return _reported(case.run) == _reported(case.reference)
    cause = cause_of(case)
    return cause is not None and cause.cause == SHUFFLED_SHARD


def _reported(trace: RunTrace) -> Counter[int]:
    steps = (step for client in trace.clients for step in client.steps)
    return Counter(number for step in steps for replica in step.examples or () for number in replica)


def _examples(trace: RunTrace) -> Counter[int]:
    return Counter(
        number for client in trace.clients for step in client.steps if step.seen for number in rows_of(step.seen)
    )
