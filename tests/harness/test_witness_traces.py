"""What the harness saw by itself, in traces: put beside what was reported, judged only where that is certain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.parts import Parts
from harness.evidence.pipelines import Pipeline, Transformation
from harness.evidence.reference import Reference
from harness.evidence.reproducibility import first_difference
from harness.evidence.trace import (
    Array,
    ClientTrace,
    RunTrace,
    Seen,
    SeenVariable,
    Start,
    Step,
    Value,
    merge,
    read_client,
)
from harness.evidence.witness_values import completed, without_lead
from harness.evidence.writing import write_client
from harness.judging.align import aligned_cases
from harness.judging.explain import explain
from harness.judging.laws import Case, judge_all
from harness.judging.laws.protocol import Judgement
from harness.recording.witness._variables import ELEMENTS_MAX, kept
from harness.verify import judge
from tests.harness._traces import client, step, values

_X = np.random.default_rng(7).normal(size=(12, 3))
_Y = _X @ np.array([1.0, -2.0, 0.5])


def _variable(name: str, *copies: Any, kind: str = "plain", equal: int = 0) -> SeenVariable:
    return SeenVariable(name, kind, tuple(map(Array.of, copies)), equal)


def _seen(index: int = 1, **fields: Any) -> Seen:
    return Seen(index=index, at=float(index), **fields)


def _with(trace: ClientTrace, *seen: Seen) -> ClientTrace:
    return msgspec.structs.replace(trace, seen=seen)


def _run(*clients: ClientTrace) -> RunTrace:
    return merge(clients)


def _case(run: RunTrace, reference: RunTrace) -> Case:
    return aligned_cases(Parts(run), Reference(reference))[-1]


def _by_law(case: Case) -> dict[str, Judgement]:
    return {judgement.law: judgement for judgement in judge_all(case)}


def _trained(replicas: int, mistake: str = "", *, mean: bool = False, reported: bool = False) -> ClientTrace:
    """Three steps of gradient descent on four examples each, as the witness writes them; with `mean` replicas average.

    Mistakes: `means_added` adds up what each replica averages over its own examples, `own_gradient` applies each
    replica's gradient to its own copy, `shard` gives the second replica the examples of the first.
    """
    copies = [np.zeros(3) for _ in range(replicas)]
    found, steps = [], []
    for number in range(3):
        batch = np.arange(4 * number, 4 * number + 4)
        rows = np.split(batch, replicas)
        if mistake == "shard":
            rows = [rows[0]] * replicas
        share = len(rows[0]) if mistake == "means_added" or mean else len(batch)
        errors = [_X[own] @ w - _Y[own] for own, w in zip(rows, copies, strict=True)]
        losses = [np.sum(error**2) / share for error in errors]
        gradients = [2 * _X[own].T @ error / share for own, error in zip(rows, errors, strict=True)]
        reduced = sum(gradients) / (replicas if mean else 1)
        copies = [
            w - 0.1 * (own if mistake == "own_gradient" else reduced) for w, own in zip(copies, gradients, strict=True)
        ]
        kind = "plain" if replicas == 1 else "mirrored"
        equal = 0 if mistake == "own_gradient" else replicas - 1
        kept = copies if mistake == "own_gradient" else copies[:1]
        found.append(
            _seen(
                number + 1,
                after=number if reported else 0,
                variables=(_variable("w", *kept, kind=kind, equal=equal),),
                examples=tuple(tuple((own + 7000).tolist()) for own in rows),
                losses=values({"loss": losses}) or (),
                gradients=values({"w": gradients}) or (),
                reduced=values({"": reduced}) or (),
            )
        )
        steps.append(step(number + 1, loss=[np.float64(loss) for loss in losses]))
    return _with(client(*(steps if reported else ()), replicas=replicas), *found)


def test_a_step_that_nobody_reported_is_a_step() -> None:
    """A program that never calls `record.step` has the steps that were seen, with their variables."""
    run = completed([_run(_trained(1)), _run(_trained(2))]).traces[1]
    assert [each.index for each in run.clients[0].steps] == [1, 2, 3]
    assert all(len((each.variables or ())[0].copies) == 2 for each in run.clients[0].steps)


def _two_workers(*, whole: Sequence[int], each_its_own: bool = False, reads: bool = True) -> tuple[RunTrace, RunTrace]:
    """A reference and two workers: three batches of four examples, and at every step what all are given whole.

    With `each_its_own` every worker has all four, of a data set that it `reads`, or from the program.
    """
    data = (Pipeline("train.py:9", None, (Transformation("Batch", "train.py:8"),)),) if reads else ()
    batches = [range(4 * number, 4 * number + 4) for number in range(3)]

    def rows(batch: range, worker: int) -> tuple[int, ...]:
        return (*(batch if each_its_own else batch[2 * worker : 2 * worker + 2]), *whole)

    truth = [_seen(number, examples=((*batch, *whole),)) for number, batch in enumerate(batches, start=1)]
    clients = [
        _with(
            client(replicas=2, clients=2, task=f"worker:{worker}", pipelines=data),
            *(_seen(number, examples=(rows(batch, worker),)) for number, batch in enumerate(batches, start=1)),
        )
        for worker in range(2)
    ]
    return _run(_with(client(), *truth)), _run(*clients)


@pytest.mark.parametrize(
    ("each_its_own", "reads", "status"), [(False, True, "held"), (True, True, "broken"), (True, False, "not_judged")]
)
def test_rows_that_every_worker_has_at_every_step_are_no_examples(each_its_own: bool, reads: bool, status: str) -> None:
    """They are what all are given; next to them a batch that all read is still found, and a note says how many.

    Who is given the whole batch by the program, and not by a data set, may take its rows of it.
    """
    reference, run = _two_workers(whole=(90, 91), each_its_own=each_its_own, reads=reads)
    found = completed([reference, run], with_examples=2)
    case = _case(found.traces[1], found.traces[0])
    assert _by_law(case)["examples_match_reference"].status == status
    assert any("given whole, the same at every step" in note for note in found.notes)


def test_a_batch_that_is_the_same_at_every_step_is_one() -> None:
    """Where a step has nothing that changes, what every worker has whole was read by each of them."""
    reference, run = _two_workers(whole=(90, 91))
    same = [
        RunTrace(
            tuple(
                _with(each, *(msgspec.structs.replace(seen, examples=((90, 91),)) for seen in each.seen))
                for each in trace.clients
            )
        )
        for trace in (reference, run)
    ]
    found = completed(same, with_examples=2)
    assert _by_law(_case(found.traces[1], found.traces[0]))["examples_match_reference"].status == "broken"


def test_what_was_seen_is_written_and_read(tmp_path: Path) -> None:
    """A trace file holds it; a file of before, which does not, is read as ever."""
    trace = _trained(2)
    write_client(tmp_path / "new", trace)
    assert read_client(tmp_path / "new").seen == trace.seen
    write_client(tmp_path / "old", client(step(1, loss=np.float64(2.0))))
    assert read_client(tmp_path / "old").seen == ()


@pytest.mark.parametrize("mistake", ["means_added", "own_gradient", "shard"])
def test_a_mistake_that_nobody_reported_is_found(mistake: str) -> None:
    """Variables that were only seen are judged as if they had been reported."""
    case = _case(_run(_trained(2, mistake)), _run(_trained(1)))
    law = "replicas_agree" if mistake == "own_gradient" else "variables_match_reference"
    assert _by_law(case)[law].status == "broken"


@pytest.mark.parametrize("mean", [False, True])
def test_a_right_program_that_reports_nothing_is_not_accused(mean: bool) -> None:
    """Whether its replicas add up their gradients or average them: those of single replicas are in no law's hands."""
    case = _case(_run(_trained(2, mean=mean)), _run(_trained(1)))
    found = aligned_cases(Parts(case.run), Reference(case.reference, (case.reference,)))[-1]
    judged = _by_law(found)
    assert not [law for law in judged.values() if law.status == "broken"], judged
    assert judged["variables_match_reference"].status == judged["examples_match_reference"].status == "held"


def test_examples_are_judged_by_their_fingerprints() -> None:
    """A replica that gets another one's examples is found, and the examples are numbered as the reference has them."""
    case = _case(_run(_trained(2, "shard")), _run(_trained(1)))
    law = _by_law(case)["examples_match_reference"]
    assert law.status == "broken"
    assert "missing 2 ids: 2, 3" in law.findings[0].text


def test_examples_of_other_bits_are_not_compared() -> None:
    """Data that is computed in the pipeline may be rounded otherwise: then fingerprints say nothing, which is noted."""
    trace = _trained(2)
    other = [msgspec.structs.replace(seen, examples=((1, 2), (3, 4))) for seen in trace.seen]
    case = _case(_run(_with(trace, *other)), _run(_trained(1)))
    assert _by_law(case)["examples_match_reference"].status == "not_judged"
    assert any("to the bit" in note for note in case.notes)


def test_what_is_reported_wins() -> None:
    """Where any step reports an observable, what was seen of it is not looked at."""
    run, reference = (
        _with(client(step(1, variables={"w": np.ones(2)})), _seen(variables=(_variable("w", np.full(2, wrong)),)))
        for wrong in (1.0, 2.0)
    )
    found = completed([_run(reference), _run(run)])
    for trace in found.traces:
        assert (trace.clients[0].steps[0].variables or ())[0].value == Array.of(np.ones(2))


def test_what_is_seen_between_two_reports_belongs_to_the_later_one() -> None:
    """A program that reports every second step has the variables after it, and the examples of both."""
    seen = [
        _seen(1, after=0, variables=(_variable("w", np.float64(1)),), examples=((1,), (2,))),
        _seen(2, after=0, variables=(_variable("w", np.float64(2)),), examples=((3,), (4,))),
    ]
    trace = _run(_with(client(step(1, loss=np.float64(0)), replicas=2), *seen))
    (only,) = completed([trace], with_examples=1).traces[0].clients[0].steps
    assert (only.variables or ())[0].value == Array.of(np.float64(2))
    assert only.examples == ((0, 1), (2, 3))


@pytest.mark.parametrize(
    "other",
    [
        (_variable("w", np.zeros(2)), _variable("w", np.zeros(2))),
        (_variable("w", np.zeros(3)),),
        (_variable("w", np.zeros(2, np.float32)),),
        (_variable("v", np.zeros(2)),),
    ],
)
def test_variables_that_cannot_be_told_apart_are_not_judged(other: tuple[SeenVariable, ...]) -> None:
    """Another number of variables of one name, another shape or dtype, or no such name: nobody knows which it is."""
    sure = _variable("sure", np.ones(1))
    run = _run(_with(client(), _seen(variables=(sure, *other))))
    reference = _run(_with(client(), _seen(variables=(sure, _variable("w", np.ones(2))))))
    for trace in completed([reference, run]).traces:
        assert [each.name for each in trace.clients[0].steps[0].variables or ()] == ["sure"]


def test_steps_at_which_not_everybody_saw_it_have_none() -> None:
    """Large variables are looked at seldom: what only one side has at a step is no finding."""
    run = _run(_with(client(), _seen(1), _seen(2, variables=(_variable("w", np.zeros(1)),))))
    reference = _run(_with(client(), *(_seen(k, variables=(_variable("w", np.zeros(1)),)) for k in (1, 2))))
    for trace in completed([reference, run]).traces:
        assert [each.variables is None for each in trace.clients[0].steps] == [True, False]


def test_the_loss_that_fit_logs_is_judged() -> None:
    """It is the program's own number."""
    run, reference = (_run(_with(client(), _seen(loss=Value("loss", (Array.of(np.float64(x)),))))) for x in (2.0, 1.0))
    assert _by_law(_case(run, reference))["loss_matches_reference"].status == "broken"
    assert _by_law(_case(reference, reference))["loss_matches_reference"].status == "held"


def test_runs_that_report_nothing_can_differ_from_each_other() -> None:
    """Whether equal runs of a reference are equal is asked of what was seen as well."""
    one, same, other = _trained(1), _trained(1), _trained(1, mean=True)
    other = _with(
        other, *(msgspec.structs.replace(seen, variables=(_variable("w", np.ones(3)),)) for seen in other.seen)
    )
    assert first_difference(one, same) is None
    assert "variable" in (first_difference(one, other) or pytest.fail("none")).text


def _named(mistake: str, mean: bool = False, truth: RunTrace | None = None) -> str | None:
    truth = _run(_trained(1)) if truth is None else truth
    perturbed = _run(_trained(1))
    case = aligned_cases(Parts(_run(_trained(2, mistake, mean=mean))), Reference(truth, (perturbed,)))[-1]
    found = explain(case)
    return None if found is None else found.rule


def test_rules_get_what_was_seen_of_each_replica() -> None:
    """Nothing was reported, and the gradients of each replica prove what was done with them."""
    assert _named("own_gradient") == "gradients_not_reduced"
    assert _named("means_added") == "loss_times_replicas"


@pytest.mark.parametrize(("factor", "rule"), [(1.0, None), (0.5, "loss_divided_by_replicas"), (0.6, None)])
def test_a_loss_that_fit_logs_wrongly_is_named_where_those_of_replicas_are_right(
    factor: float, rule: str | None
) -> None:
    """What is differentiated adds up to the reference's, and the log has half of it: the report alone is wrong."""

    def logged(trace: ClientTrace, factor: float) -> RunTrace:
        sums = [sum(float(part.numpy()) for part in seen.losses[0].parts) for seen in trace.seen]
        found = [(values({"loss": [np.float64(factor * each)]}) or ())[0] for each in sums]
        return _run(
            _with(
                trace, *(msgspec.structs.replace(seen, loss=one) for seen, one in zip(trace.seen, found, strict=True))
            )
        )

    truth = logged(_trained(1), 1.0)
    case = aligned_cases(Parts(logged(_trained(2), factor)), Reference(truth, (truth,)))[-1]
    assert (_by_law(case)["loss_matches_reference"].status == "broken") == (factor != 1.0)
    found = explain(case)
    assert (found.rule if found else None) == rule
    assert found is None or "only the report is wrong" in found.text


def test_replicas_that_average_are_not_taken_for_a_mistake() -> None:
    """What was applied shows that gradients were averaged, and their sum is then no mistake of its own."""
    reference = _trained(1)
    moved = [
        msgspec.structs.replace(seen, variables=(_variable("w", (seen.variables or ())[0].copies[0].numpy() + 1),))
        for seen in reference.seen
    ]
    assert _named("", mean=True, truth=_run(_with(reference, *moved))) != "loss_times_replicas"
    blind = [msgspec.structs.replace(seen, reduced=()) for seen in _trained(2, mean=True).seen]
    case = aligned_cases(
        Parts(_run(_with(_trained(2, mean=True), *blind))), Reference(_run(_trained(1)), (_run(_trained(1)),))
    )[-1]
    assert explain(case) is None


def test_laws_see_no_gradients_of_replicas() -> None:
    """They are for rules alone."""
    case = _case(_run(_trained(2, mean=True)), _run(_trained(1)))
    assert all(each.gradients is None for trace in (case.run, case.reference) for each in trace.clients[0].steps)
    assert isinstance(case.run.clients[0].steps[0], Step)


def test_a_run_in_parts_is_judged_by_what_it_reports() -> None:
    """Its parts count their steps from 1, and what was seen stands at other steps of the reference."""
    run = RunTrace((_trained(2, "means_added", reported=True),))
    parts = Parts(run, must_resume=True, saved=("checkpoint",))
    case = aligned_cases(parts, Reference(_run(_trained(1, reported=True))))[-1]
    assert _by_law(case)["variables_match_reference"].status == "not_judged"


@pytest.mark.parametrize("examples", [((0, 1),), None])
def test_examples_of_some_replicas_or_steps_are_not_compared(examples: Any) -> None:
    """What is missing was not seen, which does not say that it was not consumed."""
    trace = _trained(2)
    first, *others = trace.seen
    case = _case(_run(_with(trace, msgspec.structs.replace(first, examples=examples), *others)), _run(_trained(1)))
    assert _by_law(case)["examples_match_reference"].status == "not_judged"
    assert any("each replica at each step" in note for note in case.notes)


def test_copies_that_are_equal_are_counted() -> None:
    """Bit for bit: a zero with another sign is another copy."""
    one, other = np.zeros((2, 3), np.float32), -np.zeros((2, 3), np.float32)
    assert kept([one, one.copy(), other]) == ((Array.of(one), Array.of(other)), 1)


def test_of_a_large_variable_some_elements_are_kept() -> None:
    """The same in each run; copies that differ in an element which is not among them differ nevertheless."""
    large = np.arange(3 * ELEMENTS_MAX, dtype=np.float32).reshape(3, -1)
    (first,), equal = kept([large, large.copy()])
    assert (first.shape, equal) == ((ELEMENTS_MAX,), 1)
    assert first.numpy()[:3].tolist() == [0, 3, 6]
    changed = large.copy()
    changed[1, 1] += 1
    (one, other), equal = kept([large, changed])
    assert equal == 0
    assert np.nonzero(one.numpy() != other.numpy())[0].tolist() == [ELEMENTS_MAX - 1]


@pytest.mark.parametrize(("number", "outcome"), [(np.nan, "abstained"), (np.inf, "consistent"), (1.0, "consistent")])
def test_a_reference_that_is_nan_in_what_is_only_seen_says_nothing(number: float, outcome: str) -> None:
    """Infinity may be what a program begins with, such as the best loss so far."""
    trained = [_seen(k, variables=(_variable("w", [float(k), 2.0]), _variable("best", [number]))) for k in (1, 2)]
    truth, run = (RunTrace((_with(client(replicas=count), *trained),)) for count in (1, 2))
    verdict = judge(Parts(run), Reference(truth), program="p", tasks={}, seconds=0.0)
    assert verdict.outcome == outcome
    assert ("variables 'best': nan" in str(verdict)) == (outcome == "abstained")


@pytest.mark.parametrize(
    ("reported", "by_hand", "each_its_own", "status"),
    [
        (False, True, False, "held"),
        (False, True, True, "broken"),
        (True, True, False, "held"),
        (True, True, True, "broken"),
        (False, False, True, "not_judged"),  # it was given some, that were not seen
    ],
)
def test_a_step_that_is_given_no_examples_hides_no_others(
    reported: bool, by_hand: bool, each_its_own: bool, status: str
) -> None:
    """Replicas may set variables before they train, of nothing; a program that reports has that in its first step."""
    found = [_with_first(trace, reported, by_hand) for trace in _two_workers(whole=(), each_its_own=each_its_own)]
    reference, run = completed(found, with_examples=2).traces
    law = _by_law(_case(run, reference))["examples_match_reference"]
    assert law.status == status


def _with_first(trace: RunTrace, reported: bool, by_hand: bool) -> RunTrace:
    """With a first step of which no examples were seen, which may be by hand."""
    later = [
        [msgspec.structs.replace(seen, index=seen.index + 1, after=reported * (seen.index - 1)) for seen in each.seen]
        for each in trace.clients
    ]
    steps = tuple(step(number) for number in (1, 2, 3)) if reported else ()
    clients = [msgspec.structs.replace(each, steps=steps) for each in trace.clients]
    first = _seen(by_hand=by_hand)
    return _run(*(_with(each, first, *seen) for each, seen in zip(clients, later, strict=True)))


@pytest.mark.parametrize("by_hand", [False, True])
def test_where_no_gradient_was_taken_none_was_left_unreduced(by_hand: bool) -> None:
    """Copies that each replica has moved by its own are told by the line that moves them."""
    run, reference = _trained(2, "own_gradient"), _trained(1)
    hidden = [msgspec.structs.replace(seen, by_hand=by_hand, losses=(), gradients=(), reduced=()) for seen in run.seen]
    found = completed([_run(reference), _run(_with(run, *hidden))]).traces
    why = explain(_case(found[1], found[0]))
    assert (None if why is None else why.rule) == (None if by_hand else "gradients_not_reduced")


@pytest.mark.parametrize(("by_hand", "lead"), [((True, True, False, False), 2), ((True, True), 0), ((False, True), 0)])
def test_a_process_that_was_started_again_begins_where_it_takes_gradients(by_hand: tuple[bool, ...], lead: int) -> None:
    """What it begins with is known of that step; one that takes none begins at once."""
    seen = [_seen(number, by_hand=each) for number, each in enumerate(by_hand, start=1)]
    numbers = range(1, len(by_hand) + 1)
    starts = [Start(float(number), (), number, lead=1 < number <= sum(by_hand) + 1) for number in numbers]
    trace = msgspec.structs.replace(_with(client(), *seen), start=starts[0], starts=tuple(starts[1:]))
    found = without_lead(trace)
    assert [each.index for each in found.seen] == [*range(1, len(by_hand) - lead + 1)]
    assert found.start is not None
    assert (found.start.at, found.start.index) == (lead + 1.0, 1)
    assert [each.index for each in found.starts] == [*range(2, len(by_hand) - lead + 1)]
