"""State that neither a tape nor an optimizer touches is compared and named, and so is what each replica trains from."""

from __future__ import annotations

import pytest

from harness import verify
from tests.harness._averages import averaging, centred, counting, pipeline, resuming


@pytest.mark.full
@pytest.mark.parametrize("where", ["python", "graph", "replica"])
@pytest.mark.parametrize("reports", [False, True])
@pytest.mark.parametrize("often", [False, True])
def test_an_average_or_a_count_that_counts_replicas_is_found(where: str, reports: bool, often: bool) -> None:
    """Whatever changes it, and whether the program reports its weights or nothing."""
    program = averaging(where, often=often, reports=reports)
    verdict = verify(program, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == ("inconsistent" if often else "consistent"), str(verdict)
    if often:
        named = {finding.variable for finding in verdict.findings}
        assert named == ({"count"} if where == "replica" else {"average"}), str(verdict)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["own", "early", "shared", "normal", "batch"])
def test_a_state_of_its_own_that_a_replica_trains_from_is_a_finding(kind: str) -> None:
    """Also if the batch is in it first, so that the first step is another one. What nothing is trained from is none."""
    verdict = verify(centred(kind), "mirrored-2", explain=False, prove=False)
    trains = kind in ("own", "early")
    assert verdict.outcome == ("inconsistent" if trains else "consistent"), str(verdict)
    said = "each replica has its own 'centre', and later steps train from that"
    assert (said in " ".join(str(verdict).split())) == trains
    assert ("own" in [each.code for each in verdict.conditions]) == (kind == "batch")


@pytest.mark.full
def test_the_line_that_moves_each_copy_by_its_own_examples_is_named() -> None:
    """It is where the copies begin to differ, and not where a step is trained from them."""
    verdict = verify(centred("own"), "mirrored-2", explain=True, prove=False)
    assert verdict.culprit is not None, str(verdict)
    assert verdict.culprit.source.endswith("# its own copy")


@pytest.mark.full
def test_a_training_that_places_its_work_itself_is_judged_by_what_it_computes() -> None:
    """Two devices divide it, and no replica runs: that is a condition, and what is wrong is wrong."""
    right = verify(pipeline(devices=2), "mirrored-2", explain=False, prove=False)
    assert right.outcome == "consistent", str(right)
    assert [each.code for each in right.conditions] == ["placed_by_hand"]
    wrong = verify(pipeline(devices=2, scale=2.0), "mirrored-2", explain=True, prove=False)
    assert wrong.explanation is None, "rules are of replicas"
    assert wrong.looked is not None
    assert wrong.looked.culprit is None
    broken = {law.law for law in wrong.judgements if law.status == "broken"}
    assert broken == {"variables_match_reference"} | ({"loss_matches_reference"} & broken), str(wrong)


@pytest.mark.full  # test_replicas_ran.py has the rule
def test_a_training_that_nothing_divides_is_not_that_of_the_strategy() -> None:
    """All on one device, outside of all replicas."""
    verdict = verify(pipeline(devices=1), "mirrored-2", explain=False, prove=False)
    assert {law.law for law in verdict.judgements if law.status == "broken"} == {"replicas_ran"}, str(verdict)
    assert verdict.conditions == ()


@pytest.mark.full
@pytest.mark.parametrize("lost", [True, False])
def test_an_average_that_a_restart_loses_is_found_and_explained(lost: bool) -> None:
    """It is in no checkpoint, and begins anew; no number that the program reports is wrong."""
    verdict = verify(resuming(lost=lost), "mirrored-2", interrupt_at=3, explain=False, prove=False)
    assert verdict.outcome == ("inconsistent" if lost else "consistent"), str(verdict)
    if lost:
        assert {each.variable for each in verdict.findings} == {"average"}
        assert verdict.explanation is not None
        assert verdict.explanation.rule == "state_not_restored"
        assert "'average'[0] is 1 after the restart where it was" in verdict.explanation.text


@pytest.mark.full
@pytest.mark.parametrize("reports", [False, True])
def test_what_copies_hold_that_nobody_reports_is_a_condition(reports: bool) -> None:
    """Whether a count that is put together when it is read is right, nobody knows who does not read it."""
    verdict = verify(counting(reports=reports), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == ("inconsistent" if reports else "consistent"), str(verdict)
    given = [each.text for each in verdict.conditions if each.code == "unread_state"]
    assert len(given) == (not reports)
    assert all("'seen'" in each for each in given)
