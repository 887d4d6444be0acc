"""Causes: each mistake in an input pipeline is named from what the workers read, and no other is."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as edited

from harness.evidence.counters import Counters
from harness.evidence.pipelines import Pipeline, Transformation
from harness.evidence.stand_ins import StandIn
from harness.evidence.trace import RunTrace, Seen
from harness.judging.conditions import conditions_of
from harness.judging.explain import explain
from harness.judging.explain.causes import all_causes, named_causes
from harness.judging.laws import Case, Judgement
from harness.ledger import aligned
from tests.harness._pipelines import Shards, batched, case_of, run_of, sliced
from tests.harness._traces import edit

N = 48
BATCH = 12
IDS = list(range(100, 100 + N))


def _case(replicas: Sequence[Shards], ids: list[int] | None = None, *, epochs: int = 1, local: int = 1) -> Case:
    return case_of(run_of(replicas, local), [ids or IDS] * epochs, BATCH)


def _named(case: Case) -> list[str]:
    pipelines = case.run.clients[0].counters.pipelines
    return [one.cause for one in named_causes(aligned(case.run, case.reference), pipelines)]


def _made_by(case: Case, made: str, distributed: Literal["dataset", "function"] = "function") -> Case:
    """The same case, of which the first client has seen by what its data was made, the last transformation first."""
    pipeline = Pipeline("train.py:9", distributed, tuple(Transformation(kind, "train.py:8") for kind in made.split()))
    first = edited(case.run.clients[0], counters=Counters(pipelines=(pipeline,)))
    return Case(RunTrace((first, *case.run.clients[1:])), case.reference, case.tolerance)


def _off(workers: int) -> Case:
    """Every worker reads everything, in its part of the global batch: the run takes more steps."""
    return _case([batched(IDS, BATCH // workers) for _ in range(workers)])


def _off_for_as_many_steps(workers: int) -> Case:
    """The same in a loop that takes as many steps as the reference."""
    return _case([batched(IDS, BATCH // workers)[: N // BATCH] for _ in range(workers)])


def _off_in_an_order_of_its_own(workers: int) -> Case:
    """Every worker reads everything, each shuffled by another seed."""
    orders = [random.Random(k).sample(IDS, N) for k in range(workers)]
    return _case([batched(order, BATCH // workers) for order in orders])


def _off_in_orders_for_as_many_steps(workers: int) -> Case:
    """The same for as many steps as the reference takes: each worker has more than a shard, and none twice."""
    orders = [random.Random(k).sample(IDS, N) for k in range(workers)]
    steps = 3 * N // (2 * BATCH)
    shards = [batched(order, BATCH // workers)[:steps] for order in orders]
    return case_of(run_of(shards, 1), [IDS, IDS[: N // 2]], BATCH)


def _same_index(workers: int) -> Case:
    """Every worker takes shard 1."""
    return _case([batched(IDS[1::workers], BATCH // workers) for _ in range(workers)])


def _count_of_replicas(workers: int) -> Case:
    """Workers of two replicas that shard by the number of replicas."""
    shards = [batched(IDS[k :: 2 * workers], BATCH // (2 * workers)) for k in range(workers)]
    return _case([shard[j::2] for shard in shards for j in range(2)], local=2)


def _twice(workers: int) -> Case:
    """A shard of each shard."""
    return _case([batched(IDS[k::workers][k::workers], BATCH // workers) for k in range(workers)])


def _twice_by_slices(workers: int) -> Case:
    """A slice, as AutoShardPolicy.DATA cuts it, of each batch of each shard."""
    shards = [sliced(IDS[k::workers], BATCH, workers)[k] for k in range(workers)]
    return _case(list(shards))


def _twice_by_files(workers: int) -> Case:
    """A slice of each batch of a worker's own files, of four examples each."""
    files = batched(range(16 * workers), 4)
    own = [[key for file in files[k::workers] for key in file] for k in range(workers)]
    return _case([sliced(own[k], BATCH, workers)[k] for k in range(workers)], list(range(16 * workers)))


def _after_batch(workers: int) -> Case:
    """Whole batches in turn; with 5 batches the workers run out at different steps."""
    ids = [*IDS, *range(200, 212)]
    return _case([batched(ids, BATCH)[k::workers] for k in range(workers)], ids)


def _not_divided(workers: int) -> Case:
    """Shards of single examples, in batches of the global size."""
    return _case([batched(IDS[k::workers], BATCH) for k in range(workers)])


def _times_replicas(workers: int) -> Case:
    """Slices of batches that are too large by the number of workers; the last of them is not full."""
    ids = [*IDS, *range(200, 205)]
    return _case(sliced(ids, BATCH * workers, workers), ids)


def _tail_of_the_batches(workers: int) -> Case:
    """A last batch of 5 examples is dropped."""
    ids = [*IDS, *range(200, 205)]
    return _case(sliced(IDS, BATCH, workers), ids)


def _tail_of_the_shards(workers: int) -> Case:
    """Each worker drops its own last batch."""
    ids = [*IDS, *range(200, 202)]
    size = BATCH // workers
    return _case([[b for b in batched(ids[k::workers], size) if len(b) == size] for k in range(workers)], ids)


def _floor_division(workers: int) -> Case:
    """A global batch that the workers do not divide, divided by `//`."""
    size = (BATCH - 1) // workers
    whole = batched(IDS[:44], BATCH - 1)
    replicas = [[one[k * size : (k + 1) * size] for one in whole] for k in range(workers)]
    return case_of(run_of(replicas), [IDS[:44]], BATCH - 1)


def _one_file(workers: int) -> Case:
    """One file: worker 0 reads it, the others have nothing."""
    return _case([batched(IDS, BATCH // workers), *([[]] * (workers - 1))])


def _files(workers: int) -> Case:
    """Five files of uneven size, dealt out in turn."""
    cuts = [0, 11, 20, 33, 41, N]
    files = [IDS[a:b] for a, b in itertools.pairwise(cuts)]
    return _case([batched(list(itertools.chain(*files[k::workers])), BATCH // workers) for k in range(workers)])


def _files_of_a_batch_each(workers: int) -> Case:
    """Four files of as many examples as a global batch has, of which each worker reads its part at a step."""
    return _case(
        [batched(list(itertools.chain(*batched(IDS, BATCH)[k::workers])), BATCH // workers) for k in range(workers)]
    )


_KEPT = [key for key in range(100, 180) if random.Random(key).random() < 0.6]


def _filtered_late(workers: int) -> Case:
    """Of every shard of all examples what a filter keeps; ids count all examples."""
    return _case([batched(_shard(k, workers), BATCH // workers) for k in range(workers)], _KEPT)


def _shard(k: int, workers: int) -> list[int]:
    return [key for key in range(100, 180)[k::workers] if key in _KEPT]


def _filtered_late_with_other_ids(workers: int) -> Case:
    """The same, and ids are hashes of the examples, as they are where nobody reports them."""
    hashed = {key: random.Random(key).getrandbits(60) for key in _KEPT}
    shards = [[hashed[key] for key in _shard(k, workers)] for k in range(workers)]
    return _case([batched(shard, BATCH // workers) for shard in shards], [hashed[key] for key in _KEPT])


def _shuffled_shards(workers: int) -> Case:
    """Each worker has its own shard, in an order of its own."""
    orders = [random.Random(k).sample(IDS[k::workers], len(IDS[k::workers])) for k in range(workers)]
    return _made_by(_case([batched(order, BATCH // workers) for order in orders]), "Batch Shuffle Shard")


def _shuffled_first_with_one_seed_right(workers: int) -> Case:
    """The same, but worker 0 has the reference's seed."""
    orders = [IDS, *(random.Random(7 + k).sample(IDS, N) for k in range(1, workers))]
    return _case([batched(orders[k][k::workers], BATCH // workers) for k in range(workers)])


def _shuffled_first(workers: int) -> Case:
    """Each worker shuffles by another seed and takes its shard of that."""
    orders = [random.Random(7 + k).sample(IDS, N) for k in range(workers)]
    return _case([batched(orders[k][k::workers], BATCH // workers) for k in range(workers)])


def _overlapping(workers: int) -> Case:
    """Each worker skips to its shard by too few examples, and shuffles it."""
    shards = [IDS[k * (N // workers - 4) :][: N // workers] for k in range(workers)]
    shuffled = [random.Random(7 + k).sample(shard, len(shard)) for k, shard in enumerate(shards)]
    return _case([batched(shard, BATCH // workers) for shard in shuffled])


def _places(workers: int) -> Case:
    """Each worker skips to its shard by too few examples."""
    return _case([batched(IDS[k * (N // workers - 4) :][: N // workers], BATCH // workers) for k in range(workers)])


CASES: list[tuple[Callable[[int], Case], str, str]] = [
    (_off, "auto_shard_off", "examples_duplicated"),
    (_off_for_as_many_steps, "auto_shard_off", "examples_duplicated"),
    (_off_in_an_order_of_its_own, "auto_shard_off", "examples_duplicated"),
    (_off_in_orders_for_as_many_steps, "auto_shard_off", "examples_duplicated"),
    (_same_index, "same_shard_index", "examples_duplicated"),
    (_count_of_replicas, "shard_count_wrong", "examples_missing"),
    (_twice, "sharded_twice", "examples_missing"),
    (_twice_by_slices, "sharded_twice", "examples_missing"),
    (_twice_by_files, "sharded_twice", "examples_missing"),
    (_after_batch, "shard_after_batch", "global_batch_per_replica"),
    (_not_divided, "batch_not_divided", "global_batch_per_replica"),
    (_times_replicas, "batch_times_replicas", "global_batch_per_replica"),
    (_tail_of_the_batches, "dropped_tail", "examples_missing"),
    (_tail_of_the_shards, "dropped_tail", "examples_missing"),
    (_floor_division, "dropped_tail", "examples_missing"),
    (_one_file, "fewer_files_than_workers", "examples_at_other_steps"),
    (_files, "sharded_by_files", "examples_at_other_steps"),
    (_files_of_a_batch_each, "sharded_by_files", "examples_at_other_steps"),
    (_filtered_late, "filtered_after_shard", "examples_at_other_steps"),
    (_filtered_late_with_other_ids, "filtered_after_shard", "examples_at_other_steps"),
    (_shuffled_shards, "shuffled_shard", "examples_at_other_steps"),
    (_shuffled_first_with_one_seed_right, "shuffle_before_shard", "examples_duplicated"),
    (_shuffled_first, "shuffle_before_shard", "examples_duplicated"),
    (_overlapping, "overlapping_shards", "examples_duplicated"),
]


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize(("make", "cause", "rule"), CASES, ids=[make.__name__ for make, _, _ in CASES])
def test_a_mistake_is_given_its_cause(make: Callable[[int], Case], cause: str, rule: str, workers: int) -> None:
    """What the workers read is reproduced by the model of the mistake that was made, and by no other."""
    case = make(workers)
    assert _named(case) == [cause]
    found = explain(case)
    assert found is not None
    assert found.cause == cause
    assert f"Cause, {cause}: " in found.text
    assert found.rule == rule


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize(
    ("make", "cause"),
    [(_one_file, "fewer_files_than_workers"), (_files, "sharded_by_files"), (_places, "overlapping_shards")],
)
def test_a_mistake_is_given_its_cause_where_data_repeats_itself(
    make: Callable[[int], Case], cause: str, workers: int
) -> None:
    """Passes of a pipeline are no epochs of the run: they end within a batch, and not for all readers at one step."""
    once = make(workers)
    shards = [
        [key for one in once.run.clients[k].steps for shard in one.examples or () for key in shard]
        for k in range(workers)
    ]
    ids = [key for one in once.reference.clients[0].steps for shard in one.examples or () for key in shard]
    twice = case_of(run_of([batched(shard * 2, (BATCH - 1) // workers) for shard in shards]), [ids * 2], BATCH - 1)
    assert _named(twice) == [cause]
    shards[0][0] = shards[0][1]
    assert (
        _named(case_of(run_of([batched(shard * 2, (BATCH - 1) // workers) for shard in shards]), [ids * 2], BATCH - 1))
        == []
    )


def test_every_cause_is_tested() -> None:
    """No cause is without a mistake that shows it."""
    assert {cause for _, cause, _ in CASES} == {cause.id for cause in all_causes()}


@pytest.mark.parametrize("workers", [2, 3])
def test_what_no_model_reproduces_is_given_no_cause(workers: int) -> None:
    """One example lost, doubled or exchanged in an otherwise correct run is no known cause."""
    for change in (lambda ids: ids[1:], lambda ids: [*ids, ids[0]], lambda ids: [199, *ids[1:]]):
        replicas = list(sliced(IDS, BATCH, workers))
        replicas[-1] = [replicas[-1][0], change(replicas[-1][1]), *replicas[-1][2:]]
        assert _named(_case(replicas)) == []
    missing = list(sliced(IDS, BATCH, workers))
    missing[0] = [[], *missing[0][1:]]
    found = explain(_case(missing))
    assert found is not None
    assert (found.rule, found.cause) == ("examples_missing", None)
    assert "None of the known causes" in found.text


@pytest.mark.parametrize("workers", [2, 3])
def test_a_mistake_with_one_more_wrong_id_has_no_cause(workers: int) -> None:
    """A cause reproduces everything or nothing: the same mistakes with one example read by another are not named."""
    for make, cause, _ in CASES:
        if cause in ("shuffle_before_shard", "fewer_files_than_workers"):
            continue  # these are ranges, not lists: one id more or less is within them
        case = make(workers)
        steps = case.run.clients[0].steps
        first = steps[0].examples
        assert first is not None
        wrong = ((*first[0][:-1], 199), *first[1:])
        assert cause not in _named(Case(edit(case.run, 0, 1, examples=wrong), case.reference, case.tolerance)), cause


@pytest.mark.parametrize("workers", [2, 3])
def test_a_right_run_has_no_cause(workers: int) -> None:
    """Slices of the reference's batches, in whatever order within a step, are not wrong."""
    replicas = [[batch[::-1] for batch in shard] for shard in sliced(IDS, BATCH, workers)]
    assert _named(_case(replicas[::-1])) == []


def test_one_process_reads_a_global_batch_for_each_replica() -> None:
    """A dataset function under two replicas of one process gives each of them whole batches in turn."""
    case = _case([batched(IDS, BATCH)[k::2] for k in range(2)], local=2)
    found = explain(case)
    assert found is not None
    assert (found.rule, found.cause) == ("global_batch_per_replica", "batch_not_divided")
    assert "get_per_replica_batch_size" in found.text


def test_random_shards_must_overlap_as_random_ones_do() -> None:
    """Two shards of the right size in random order that share all ids, or none, were not drawn at random."""
    for half in (IDS[: N // 2], IDS[N // 2 :]):
        orders = [random.Random(k).sample(part, len(part)) for k, part in enumerate((IDS[: N // 2], half))]
        assert "shuffle_before_shard" not in _named(_case([batched(order, BATCH // 2) for order in orders]))


@pytest.mark.parametrize("workers", [2, 3])
def test_a_shuffle_before_the_shard_is_named_for_nearly_any_seeds(workers: int) -> None:
    """Four standard deviations are wide enough for the shuffles that happen: one in some thousand is further off."""
    unnamed = 0
    for number in range(40):
        orders = [random.Random(10 * number + k).sample(IDS, N) for k in range(workers)]
        case = _case([batched(order[k::workers], BATCH // workers) for k, order in enumerate(orders)])
        unnamed += _named(case) != ["shuffle_before_shard"]
    assert unnamed <= 1


@settings(max_examples=40)
@given(data=st.data())
def test_a_random_partition_has_no_cause_unless_it_is_wrong(data: st.DataObject) -> None:
    """Whoever reads which example of a global batch, nothing is amiss and nothing is named."""
    workers = data.draw(st.integers(1, 4))
    replicas: list[list[list[int]]] = [[] for _ in range(workers)]
    for whole in batched(IDS, BATCH):
        owners = data.draw(st.lists(st.integers(0, workers - 1), min_size=len(whole), max_size=len(whole)))
        for k in range(workers):
            replicas[k].append([key for key, owner in zip(whole, owners, strict=True) if owner == k])
    assert _named(_case(replicas)) == []


@pytest.mark.parametrize(
    ("make", "told", "kind", "is_given"),
    [
        (_shuffled_first, "TF_CONFIG", "Batch", True),
        (_shuffled_first, "InputContext", "Batch", False),  # the script shards by itself
        (_shuffled_first, "TF_CONFIG", "Shard", False),  # and so does this program
        (_shuffled_first, "TF_CONFIG", "Take", False),  # of which each worker makes a data set of its own
        (_off_in_orders_for_as_many_steps, "TF_CONFIG", "Batch", False),
        (_twice, "TF_CONFIG", "Batch", False),
    ],
)
def test_a_shuffle_before_tensorflow_shards_is_a_condition(
    make: Callable[[int], Case], told: str, kind: str, is_given: bool
) -> None:
    """Where nobody has reported which examples a step has; a worker that reads everything is wrong."""

    def seen(trace: RunTrace, told: tuple[StandIn, ...] = ()) -> RunTrace:
        clients = []
        for each in trace.clients:
            steps = [edited(one, seen=Seen(one.index, 0.0, examples=one.examples)) for one in each.steps]
            how: Literal["dataset", "function"] = "function" if kind == "Take" else "dataset"
            pipeline = Pipeline("train.py:9", how, (Transformation(kind, "train.py:8"),))
            counters = Counters(stand_ins=told, pipelines=(pipeline,))
            clients.append(edited(each, steps=tuple(steps), counters=counters))
        return RunTrace(tuple(clients))

    case = make(2)
    case = Case(seen(case.run), seen(case.reference, (StandIn(told, "train.py:3", "1"),)), case.tolerance)
    law = Judgement("examples_match_reference", "broken")
    judgements, conditions = conditions_of(case, [law])
    assert [each.code for each in conditions] == (["shuffled_apart"] if is_given else [])
    assert [each.status for each in judgements] == ["not_judged" if is_given else "broken"]


@pytest.mark.parametrize(
    ("distributed", "made", "cause"),
    [
        ("function", "Batch Take Shuffle", "shuffle_before_shard"),
        ("function", "Batch Shard Shuffle Take", "shuffle_before_shard"),
        ("function", "Batch Shard Shuffle Skip", "shuffle_before_shard"),
        ("function", "Batch Shuffle Take Skip", "overlapping_shards"),
        ("function", "Take Batch Shuffle Take Skip", "overlapping_shards"),
        ("function", "Batch Take Shuffle Skip", "shuffle_before_shard"),
        ("function", "Batch Shuffle Shard", None),
        ("dataset", "Batch Shuffle Shard", None),
        ("dataset", "Batch Shuffle Take", "shuffle_before_shard"),  # TensorFlow takes the shards
    ],
)
def test_what_was_shuffled_after_the_shard_was_not_before_it(
    distributed: Literal["dataset", "function"], made: str, cause: str | None
) -> None:
    """The program's pipeline says so, where random shards would share as many ids."""
    found = explain(_made_by(_shuffled_first(2), made, distributed))
    assert found is not None
    assert found.cause == cause


def _quarters(workers: int) -> Case:
    """Each worker reads every second example of its half, in an order that nobody predicts."""
    orders = [random.Random(k).sample(IDS[k::workers][::2], N // workers // 2) for k in range(workers)]
    return _case([batched(order, BATCH // workers) for order in orders])


@pytest.mark.parametrize(
    ("make", "distributed", "made", "is_named"),
    [
        (_quarters, "dataset", "Batch Shuffle Shard", True),
        (_quarters, "function", "Batch Shuffle Shard", False),
        (_quarters, "dataset", "Batch Shuffle", False),
        (_quarters, "dataset", "AutoShardPolicy.OFF Batch Shuffle Shard", False),
        (_shuffled_first, "dataset", "Batch Shuffle Shard", False),  # together they read more than one shard
    ],
)
def test_what_is_shuffled_after_the_programs_own_shard_is_sharded_once_more(
    make: Callable[[int], Case], distributed: Literal["dataset", "function"], made: str, is_named: bool
) -> None:
    """Who reads which example is not known then: the pipeline says it, and how few all of them read."""
    assert ("sharded_twice" in _named(_made_by(make(2), made, distributed))) is is_named


@pytest.mark.parametrize(
    ("make", "made", "causes"),
    [
        (_filtered_late, "Batch Filter Shard", ["filtered_after_shard"]),
        (_filtered_late, "Batch Shard", []),  # nothing was left out by a filter
        (_shuffled_shards, "Batch Shard Shuffle", []),
        (_shuffled_shards, "Batch Shard", []),
    ],
)
def test_no_cause_is_named_that_the_pipeline_does_not_have(
    make: Callable[[int], Case], made: str, causes: list[str]
) -> None:
    """Where it has been seen, what was read is not enough."""
    assert _named(_made_by(make(2), made)) == causes


@pytest.mark.parametrize(("make", "is_given"), [(_shuffled_shards, True), (_filtered_late, False)])
def test_an_order_of_the_shard_is_a_condition_where_examples_are_reported(
    make: Callable[[int], Case], is_given: bool
) -> None:
    """Each worker may shuffle what it has cut; other steps than one device's for another reason are a finding."""
    judgements, conditions = conditions_of(make(2), [Judgement("examples_match_reference", "broken")])
    assert [each.code for each in conditions] == (["order_of_examples"] if is_given else [])
    assert [each.status for each in judgements] == ["held" if is_given else "broken"]


def test_a_cause_that_is_given_explains_nothing() -> None:
    """What is wrong beside it has another explanation, or none; a cause that is not given stays one."""
    case = _shuffled_first(2)
    assert [None if why is None else why.cause for why in (explain(case), explain(case, given="other"))] == [
        "shuffle_before_shard"
    ] * 2
    assert explain(case, given="shuffle_before_shard") is None
