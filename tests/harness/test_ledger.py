"""The ledger: what it says of a run, how it is joined over an interruption, and that the law finds any single error."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as edited

from harness import Ledger
from harness.evidence.parts import Parts
from harness.evidence.reference import Reference
from harness.evidence.trace import RunTrace, Seen
from harness.judging.explain import explain
from harness.judging.laws import Case, Judgement, all_laws
from harness.judging.tolerance import ExactTolerance
from harness.ledger import aligned
from harness.report import Cell, Matrix
from harness.report.pages import matrix_page
from harness.verify import judge
from tests._present import present
from tests.harness._pipelines import batched, case_of, reference_of, run_of, sliced, with_epochs
from tests.harness._traces import client, edit, step

N = 24
BATCH = 8
IDS = list(range(N))


def _law(case: Case) -> Judgement:
    law = next(law for law in all_laws() if law.id == "examples_match_reference")
    return law.judge(case)


def _run() -> RunTrace:
    """Two workers of two replicas, three steps of 8."""
    return run_of(list(sliced(IDS, BATCH, 4)), local=2)


def test_columns_have_one_row_for_each_example() -> None:
    """Step, client, worker, replica, position and id of every example, worker by worker."""
    ledger = Ledger.of(_run())
    assert ledger.id.tolist() == [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23]
    assert ledger.step.tolist() == [1] * 4 + [2] * 4 + [3] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert ledger.replica.tolist() == [0, 0, 1, 1] * 3 + [2, 2, 3, 3] * 3
    assert ledger.worker.tolist() == ledger.client.tolist() == [0] * 12 + [1] * 12
    assert ledger.position.tolist() == [*range(12), *range(12)]
    assert set(ledger.epoch.tolist()) == {1}
    assert (ledger.workers, ledger.replicas, ledger.silent) == (("worker:0", "worker:1"), (2, 2), ())


def test_questions_about_readers_and_steps() -> None:
    """By worker and by replica in order consumed; sizes by step; the order over all workers."""
    ledger = Ledger.of(_run())
    assert ledger.by_worker()["worker:1"] == [4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23]
    assert ledger.by_replica()[3] == [6, 7, 14, 15, 22, 23]
    assert ledger.sizes() == {k: {"worker:0": (2, 2), "worker:1": (2, 2)} for k in (1, 2, 3)}
    assert (ledger.steps(), ledger.epochs(), len(ledger)) == ([1, 2, 3], [1], N)
    assert ledger.order() == IDS
    assert ledger.order(step=2) == IDS[8:16]
    assert ledger.order(worker="worker:1", step=2) == [12, 13, 14, 15]
    assert ledger.where(replica=1).counts() == Counter([2, 3, 10, 11, 18, 19])
    assert ledger.where(step=2).steps() == [2]
    with pytest.raises(ValueError, match="worker:7"):
        ledger.where(worker="worker:7")


def test_empty_batches_are_kept() -> None:
    """A replica with nothing has a size of 0, and a worker that never had anything an empty list."""
    ledger = Ledger.of(run_of([[[1, 2], [3]], [[], []]]))
    assert ledger.sizes() == {1: {"worker:0": (2,), "worker:1": (0,)}, 2: {"worker:0": (1,), "worker:1": (0,)}}
    assert ledger.by_worker() == {"worker:0": [1, 2, 3], "worker:1": []}


def test_a_run_without_examples_has_an_empty_ledger() -> None:
    """Clients that recorded none are named, and no question fails."""
    ledger = Ledger.of(RunTrace((client(step(1, loss=1.0)),)))
    assert (len(ledger), ledger.silent, ledger.clients, ledger.steps()) == (0, ("worker:0",), (), [1])
    assert (ledger.sizes(), ledger.by_worker(), ledger.order(), ledger.counts()) == ({}, {}, [], Counter())
    assert "0 examples" in ledger.table()
    assert ledger.missing([1]) == Counter([1])


@given(read=st.lists(st.integers(-3, 3)), expected=st.lists(st.integers(-3, 3)))
def test_missing_and_surplus_are_differences_of_multisets(read: list[int], expected: list[int]) -> None:
    """They equal what collections.Counter says, for lists, mappings and ledgers, of negative ids as well."""
    ledger = Ledger.of(run_of([[read]]))
    other = Ledger.of(run_of([[expected]]))
    for wanted in (expected, Counter(expected), other):
        assert ledger.missing(wanted) == Counter(expected) - Counter(read)
        assert ledger.surplus(wanted) == Counter(read) - Counter(expected)


def test_expected_ids_are_integers() -> None:
    """Names of files, say, are refused."""
    with pytest.raises(TypeError, match="integer ids"):
        Ledger.of(_run()).missing(["a"])  # type: ignore[list-item]


def test_large_ids_need_no_large_tables() -> None:
    """Hashes as ids are compared like small numbers."""
    ids = [7 * 10**17, -(2**62), 3, 5]
    case = case_of(run_of([[ids[:2]], [ids[2:]]]), [ids], 4)
    assert _law(case).status == "held"
    wrong = case_of(run_of([[ids[:2]], [[3, 3]]]), [ids], 4)
    assert _law(wrong).findings[0].index == (5,)


def test_a_chief_reports_what_its_workers_consumed() -> None:
    """Under a coordinator the client is the chief, and workers are those of the mapping, by number."""
    steps = [
        step(1, examples=((0, 1), (2,)), consumers=("worker:1", "worker:0")),
        step(2, examples=((3,), (4, 5)), consumers=("worker:1", "worker:10")),
    ]
    run = RunTrace((client(*steps, task="chief:0"),))
    ledger = Ledger.of(run)
    assert (ledger.clients, ledger.workers) == (("chief:0",), ("worker:0", "worker:1", "worker:10"))
    assert ledger.by_worker() == {"worker:0": [2], "worker:1": [0, 1, 3], "worker:10": [4, 5]}
    reference = reference_of([[5, 4, 3, 2, 1, 0]], 2)
    assert _law(Case(run, reference, ExactTolerance())).status == "held"  # no step of the two corresponds
    lost = RunTrace((client(steps[0], task="chief:0"),))
    judgement = _law(Case(lost, reference, ExactTolerance()))
    assert [finding.step for finding in judgement.findings] == [None]
    assert "missing 3 ids: 3, 4, 5" in judgement.findings[0].text
    found = present(explain(Case(lost, reference, ExactTolerance())))
    assert found.text.startswith("Over the run, the run consumed 3 examples (ids 3, 4, 5) of 6 less often")


@pytest.mark.parametrize("seen", [False, True])
def test_ids_that_nobody_has_reported_are_told_to_be_numbers(seen: bool) -> None:
    """They count what one device was given; a program that reports ids knows its own."""

    def noted(trace: RunTrace) -> RunTrace:
        first = trace.clients[0]
        steps = tuple(
            edited(one, seen=Seen(one.index, 0.0, examples=one.examples) if seen else None) for one in first.steps
        )
        return RunTrace((edited(first, steps=steps),))

    case = Case(noted(run_of([batched([0, 1, 1, 3], 4)])), noted(run_of([batched([0, 1, 2, 3], 4)])), ExactTolerance())
    (found,) = _law(case).findings
    assert found.text.startswith("step 1: 4 examples, expected 4; missing 1 id: 2; too many 1 id: 1")
    assert found.text.endswith("; ids number the examples in the order of one device") is seen


def test_epochs_come_from_the_run_then_the_reference_then_its_ids() -> None:
    """Given numbers count; else the reference's of the same step; else each part with all ids once is an epoch."""
    run, reference = run_of(list(sliced(IDS * 2, BATCH, 2))), reference_of([IDS, IDS[::-1]], BATCH)
    derived = {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2}

    def epochs(one: RunTrace, other: RunTrace | None) -> dict[int, int]:
        ledger = Ledger.of(one, other)
        return dict(zip(ledger.step.tolist(), ledger.epoch.tolist(), strict=True))

    assert epochs(run, reference) == derived
    assert epochs(run, None) == dict.fromkeys(derived, 1)
    assert epochs(run, with_epochs(reference, [2, 6])) == {1: 1, 2: 1, 3: 2, 4: 2, 5: 2, 6: 2}
    assert epochs(with_epochs(run, [5, 6]), reference) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 2}
    crossing = reference_of([IDS * 2], 16)  # a batch holds examples of two epochs
    assert set(epochs(crossing, crossing).values()) == {1}
    unequal = reference_of([IDS[:16], IDS[8:]], BATCH)  # each epoch drops another tail
    assert set(epochs(unequal, unequal).values()) == {1}
    smaller = [each for ids in (IDS, IDS) for each in batched(ids, 6)]  # other steps of the same examples
    assert epochs(run_of([smaller]), reference) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 2, 6: 2, 7: 2, 8: 2}
    lacking = [each for ids in (IDS[:18], IDS[:18]) for each in batched(ids, 6)][:4]  # other examples
    assert epochs(run_of([lacking]), reference) == {1: 1, 2: 1, 3: 1, 4: 2}


def test_an_example_that_moved_to_another_epoch_is_found_there() -> None:
    """Each example is consumed twice over the run, but one of them twice in the first epoch."""
    ids = [*IDS, *IDS]
    ids[0], ids[N + 1] = 1, 0
    case = case_of(run_of(list(sliced(ids, BATCH, 2))), [IDS, IDS], BATCH)
    first, epoch = _law(case).findings
    assert first.text.startswith("step 1: 8 examples, expected 8; missing 1 id: 0; too many 1 id: 1 (1 on ")
    assert first.text.endswith("[2 of 6 steps differ]; over all steps the examples are the same")
    assert "epoch 1: 24 examples, expected 24; missing 1 id: 0" in epoch.text
    assert "on worker:0 replica 0 at step 1 and worker:0 replica 0 at step 1" in epoch.text


def test_steps_that_only_the_reference_took_are_missing_examples() -> None:
    """A run that ends a step early has right steps and wrong totals; the number of its steps explains them."""
    case = case_of(run_of(list(sliced(IDS[:16], BATCH, 2))), [IDS], BATCH)
    (finding,) = _law(case).findings
    assert finding.text.startswith("over all steps: 16 examples, expected 24; missing 8 ids: 16, 17")
    found = present(explain(case))
    assert found.rule == "other_number_of_steps"
    assert "step 3 only the reference took. At all 2 that both took, examples agree" in found.text


def _owned(data: st.DataObject, workers: int, local: int) -> list[list[list[int]]]:
    replicas: list[list[list[int]]] = [[] for _ in range(workers * local)]
    for whole in batched(IDS, BATCH):
        owners = data.draw(st.lists(st.integers(0, len(replicas) - 1), min_size=len(whole), max_size=len(whole)))
        order = data.draw(st.permutations(list(zip(whole, owners, strict=True))))
        for k, shards in enumerate(replicas):
            shards.append([key for key, owner in order if owner == k])
    return replicas


@settings(max_examples=60)
@given(data=st.data(), workers=st.integers(1, 3), local=st.integers(1, 2))
def test_any_partition_of_the_reference_holds(data: st.DataObject, workers: int, local: int) -> None:
    """Whichever replica of whichever worker reads which example of a global batch, in whichever order."""
    case = case_of(run_of(list(_owned(data, workers, local)), local), [IDS], BATCH)
    assert _law(case).status == "held"
    ledger = Ledger.of(case.run)
    assert ledger.counts() == Counter(IDS)
    assert sum(map(len, ledger.by_worker().values())) == sum(map(len, ledger.by_replica().values())) == N
    assert ledger.table().count("\n") == N // BATCH + 1


@settings(max_examples=60)
@given(data=st.data(), workers=st.integers(1, 3), local=st.integers(1, 2), doubled=st.booleans())
def test_any_single_dropped_or_doubled_id_is_found_and_named(
    data: st.DataObject, workers: int, local: int, doubled: bool
) -> None:
    """The law names the id, its step, and where a doubled one was read; so does the explanation."""
    replicas = _owned(data, workers, local)
    at = data.draw(st.sampled_from([(r, s) for r, own in enumerate(replicas) for s, ids in enumerate(own) if ids]))
    ids = replicas[at[0]][at[1]]
    wrong = data.draw(st.sampled_from(ids))
    place = data.draw(st.integers(0, len(replicas) - 1)) if doubled else at[0]
    if doubled:
        replicas[place][at[1]].append(wrong)
    else:
        ids.remove(wrong)
    case = case_of(run_of(list(replicas), local), [IDS], BATCH)
    first, overall = _law(case).findings
    assert (first.step, first.index, overall.index) == (at[1] + 1, (wrong,), (wrong,))
    assert (first.observed, first.expected) == (2 if doubled else 0, 1)
    assert f"{'too many' if doubled else 'missing'} 1 id: {wrong}" in first.text
    if doubled:
        assert f"worker:{place // local}" in first.text
    found = present(explain(case))
    assert found.rule == ("examples_duplicated" if doubled else "examples_missing")
    assert f"1 example (id {wrong})" in found.text


def test_an_interruption_without_iterator_state_repeats_and_loses() -> None:
    """Step 2 is restored, step 3 undone; a pipeline that begins anew repeats the first batches and never gets on."""
    whole = list(sliced(IDS, BATCH, 2))
    before, again = Ledger.of(run_of(whole)), Ledger.of(run_of([shard[:1] for shard in whole]))
    both = Ledger.joined(before, again, resumed_at=2)
    assert (both.undone, both.steps()) == ((3,), [1, 2, 3])
    assert both.surplus(IDS) == Counter(IDS[:8])
    assert both.missing(IDS) == Counter(IDS[16:])


def test_an_interruption_with_iterator_state_reads_each_example_once() -> None:
    """The resumed run may have other workers and replicas, and may count its steps on or from 1."""
    before = Ledger.of(run_of(list(sliced(IDS, BATCH, 2))))
    rest = run_of(list(sliced(IDS[8:], BATCH, 4)), local=2)
    counted_on = RunTrace(
        tuple(
            msgspec.structs.replace(
                one, steps=tuple(msgspec.structs.replace(each, index=each.index + 1) for each in one.steps)
            )
            for one in rest.clients
        )
    )
    for after in (rest, counted_on):
        both = Ledger.joined(before, Ledger.of(after), resumed_at=1)
        assert both.counts() == Counter(IDS)
        assert both.steps() == [1, 2, 3]
        assert both.replicas == (2, 2)
        assert both.sizes()[1] == {"worker:0": (4,), "worker:1": (4,)}
        assert both.by_replica()[2] == [4, 5, 6, 7, 12, 13, 20, 21]
    everything = Ledger.joined(before, Ledger.of(rest))
    assert everything.undone == ()
    assert everything.surplus(IDS) == Counter(IDS[8:])


def test_the_table_shows_sizes_ids_and_what_is_wrong() -> None:
    """One line a step, one column a worker, and the whole run below."""
    case = case_of(run_of(list(sliced([*IDS[:-1], 0], BATCH, 4)), local=2), [IDS], BATCH)
    assert aligned(case.run, case.reference).table().splitlines() == [
        "step  worker:0     worker:1     all  too often  missing",
        "1     2+2: 0..3    2+2: 4..7    8",
        "2     2+2: 8..11   2+2: 12..15  8",
        "3     2+2: 16..19  2+2: 20..0   8    0          23",
        "over all: 24 examples, 23 different; worker:0 12, worker:1 12; 1 too many, 1 missing of 24",
    ]
    assert "too often" in Ledger.of(case.run).table()


@pytest.mark.parametrize("width", [60, 80, 110])
def test_the_table_is_bounded_both_ways(width: int) -> None:
    """Ten workers, 200 steps and a long list of wrong ids fit in; what is hidden is counted."""
    ids = list(range(10**6, 10**6 + 8000))
    case = case_of(run_of(list(sliced(ids, 40, 10))), [ids[::-1]], 40)
    lines = Ledger.of(case.run).table(Ledger.of(case.reference), width=width, rows=6).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) == 1 + 6 + 2
    assert "more" in lines[0]
    assert lines[-2] == "... 194 more of 200 steps, 194 of them wrong"


def test_the_table_is_in_the_verdict_only_when_examples_are_wrong() -> None:
    """In the text and in the JSON form, bounded; a consistent run has none."""
    good = case_of(run_of(list(sliced(IDS, BATCH, 2))), [IDS], BATCH)
    bad = Case(edit(good.run, 1, 2, examples=((12, 13, 14, 14),)), good.reference, good.tolerance)
    verdict = judge(Parts(bad.run), Reference(bad.reference), program="p", tasks={}, seconds=0.0)
    assert "2     4: 8..11   4: 12..14" in str(verdict)
    assert verdict.to_json()["ledger"][0].startswith("step  worker:0")
    page = matrix_page(Matrix(cells=[Cell("row", "multi_worker-2", "FAIL", verdicts=(verdict.to_json(),))]))
    assert "2     4: 8..11   4: 12..14" in page
    right = judge(Parts(good.run), Reference(good.reference), program="p", tasks={}, seconds=0.0)
    assert "ledger" not in right.to_json()
    assert "worker:0" not in str(right)
