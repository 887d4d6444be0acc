"""The verdict: truth value, first divergence, text and JSON."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.cli._exits import Exit, of_outcome
from harness.evidence.trace import RunTrace
from harness.judging.conditions import ORDER, OWN, OWN_STATISTICS, Condition
from harness.judging.diagnostics import details_of
from harness.judging.explain import explain
from harness.judging.laws import Case, judge_all
from harness.judging.laws.protocol import Finding, Judgement
from harness.judging.not_finite import not_finite
from harness.judging.tolerance import ExactTolerance
from harness.judging.verdict import Verdict
from harness.relations.proof import Counterexample, Proof, Suspect
from tests.harness._traces import client, derived_case, exact_case, step


def _verdict(case: Case, **changes: Any) -> Verdict:
    return Verdict(
        **{
            "program": "train.py:train",
            "strategy": "multi_worker-2x2",
            "judgements": judge_all(case),
            "tasks": {"worker:0": {"exit": 0}},
            "seconds": 1.25,
            "tolerance": case.tolerance.name,
            "explanation": explain(case),
            **changes,
        }
    )


def _one(loss: Any, reference: Any) -> Case:
    run, truth = (RunTrace((client(step(1, loss=np.float32(x))),)) for x in (loss, reference))
    return Case(run, truth, ExactTolerance())


def _broken(*findings: Finding) -> Verdict:
    return Verdict("p", "s", tuple(Judgement(f.law, "broken", findings=(f,)) for f in findings))


@pytest.mark.parametrize("make", [exact_case, derived_case])
def test_an_honest_run_is_consistent(make: Any) -> None:
    """A correct run is truthy, says so in its first line, and has no divergence."""
    verdict = _verdict(make())
    assert verdict
    assert verdict.consistent
    assert verdict.first_divergence is None
    assert verdict.worst_ratio is not None
    assert verdict.worst_ratio < 1
    assert str(verdict).startswith("train.py:train under multi_worker-2x2: consistent (")
    assert "broken" not in str(verdict)


def test_nothing_judged_is_not_consistent() -> None:
    """A verdict of which no law could be judged does not pass."""
    run = RunTrace((client(),))
    verdict = _verdict(Case(run, run, ExactTolerance()))
    assert {judgement.status for judgement in verdict.judgements} == {"not_judged"}
    assert not verdict
    assert verdict.outcome == "abstained"
    assert "NOT JUDGED" in str(verdict)
    assert "nothing that a step computes was compared with the reference" in " ".join(str(verdict).split())
    assert verdict.worst_ratio is None
    assert not Verdict("p", "s", ())


def test_agreement_among_replicas_alone_is_not_consistency() -> None:
    """Replicas that agree, in as many steps as the reference and finite, may all be wrong: nothing vouches for them."""
    empty = np.zeros(0, np.float32)
    run = RunTrace((client(step(1, loss=empty, variables={"w": [empty, empty]})),))
    verdict = _verdict(Case(run, run, ExactTolerance()))
    assert {law.law for law in verdict.judgements if law.status == "held"} == {"steps_match_reference"}
    assert verdict.outcome == "abstained"


def test_a_reference_that_is_not_finite_is_said_first_and_is_not_consistent() -> None:
    """One NaN in the data hides a gradient times the number of replicas; what is finite is judged all the same."""
    partly = {"w": np.asarray([np.nan, 1.0], np.float32)}
    for second, outcome in ((1.0, "abstained"), (2.0, "inconsistent")):
        reference = RunTrace((client(step(1, variables=partly)),))
        run = RunTrace((client(step(1, variables={"w": np.asarray([5.0, second], np.float32)})),))
        verdict = _verdict(Case(run, reference, ExactTolerance()), abstained=not_finite(reference))
        assert verdict.outcome == outcome
        assert not verdict
        first = details_of(verdict).splitlines()[1]
        assert "not finite in 1 of 1 recorded values" in first
        assert "step 1, variables 'w': nan (1 of 2 elements)" in verdict.to_json()["abstained"]
    assert not_finite(RunTrace((client(step(1, loss=1.0)),))) is None


def _refuted(**changes: Any) -> Verdict:
    shown = Counterexample((1, 1), "variable 'w'[0]", 1.0, 2.0)
    suspect = Suspect(None, "a mean that is summed", "variable 'w'", definite=True, counterexample=shown)
    return _verdict(exact_case(), proof=Proof("refuted", "p", "s", suspects=(suspect,)), **changes)


def test_a_batch_that_refutes_the_step_makes_it_inconsistent() -> None:
    """All numbers of the run held; the batch is told in the first line. A proof that is open changes nothing."""
    verdict = _refuted()
    assert verdict.outcome == "inconsistent"
    assert not verdict
    assert verdict.to_json()["consistent"] is False
    assert of_outcome(verdict.outcome) is Exit.INCONSISTENT
    lines = details_of(verdict).splitlines()
    assert lines[0] == (
        "train.py:train under multi_worker-2x2: INCONSISTENT for a batch of 1+1 examples (exact tier, 1.2 s)"
    )
    assert "with 1+1 examples variable 'w'[0] is 2, on one device 1" in str(verdict)
    assert verdict.summary.endswith("with 1+1 examples variable 'w'[0] is 2, on one device 1")
    assert _verdict(exact_case(), proof=Proof("open", "p", "s")).outcome == "consistent"


@pytest.mark.parametrize("code", [OWN, OWN_STATISTICS])
def test_a_batch_refutes_nothing_that_is_given(code: str) -> None:
    """Statistics of each replica's own differ in every batch: what is given is not accused by another one."""
    verdict = _refuted(conditions=(Condition(code, "that each replica has its own batch statistics"),))
    assert verdict.outcome == "consistent"
    assert "for every batch: open" in str(verdict)
    assert "which what is given explains: with 1+1 examples" in " ".join(str(verdict).split())
    assert verdict.to_json()["proof"]["status"] == "open"
    assert _refuted(conditions=(Condition(ORDER, "the run's own order of examples"),)).outcome == "inconsistent"


def test_one_broken_law_makes_it_inconsistent() -> None:
    """However many laws hold, one broken law decides."""
    assert not _verdict(exact_case(skipped_update=(2, 3)))


def test_the_text_tells_the_whole_story() -> None:
    """The message names program, strategy, place, numbers, laws, explanation, and what held or was not judged."""
    verdict = _verdict(exact_case(loss_factor=4.0))
    assert str(verdict).startswith(verdict.text())
    lines = details_of(verdict).splitlines()
    assert lines[0] == "train.py:train under multi_worker-2x2: INCONSISTENT (exact tier, 1.2 s)"
    assert lines[1].startswith(
        "  first divergence: step 1, loss: observed 2.375, expected 0.59375, error 1.78, bound 0, ratio inf"
    )
    assert lines[2] == "  broken:"
    assert lines[3].startswith("    loss_matches_reference: step 1, loss: observed 2.375")
    assert lines[4].startswith("  explanation: loss_times_replicas: The reported loss is the reference's times 4")
    rest = "\n".join(lines[5:])
    assert "  held: clients_agree (" in rest
    assert "  not judged (-v says why): updates_counted" in rest
    assert "  not judged:\n    updates_counted: no update by a coordinator" in verdict.text(verbose=True)


def test_the_text_explains_nothing_where_no_rule_comes_near() -> None:
    """The law that is broken says what is wrong, and no more is known."""
    text = str(_verdict(exact_case(loss_factor=3.0)))
    assert "broken:" in text
    assert "explanation" not in text


def test_the_text_of_the_derived_tier_has_ratios() -> None:
    """Held laws report how close they came to their bound."""
    assert "worst ratio 0.0" in str(_verdict(derived_case()))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"step": 1, "observable": "variables"}, {"step": 2, "observable": "loss"}),
        ({"step": 2, "observable": "loss"}, {"step": 2, "observable": "gradients"}),
        ({"step": 2, "observable": "gradients"}, {"step": 2, "observable": "variables"}),
        ({"step": 2, "observable": "variables"}, {"step": 2, "observable": "metrics"}),
        ({"step": 2, "observable": "metrics"}, {"step": 2, "observable": "predictions"}),
        ({"step": 9, "observable": "metrics"}, {"step": None, "observable": "loss"}),
        ({"step": 2, "observable": "metrics"}, {"step": 2, "observable": "examples"}),
    ],
)
def test_the_first_divergence_is_the_earliest(earlier: dict[str, Any], later: dict[str, Any]) -> None:
    """Steps come before the end, and within a step causes before effects, in whatever order laws reported."""
    first, second = Finding("a", "first", **earlier), Finding("b", "second", **later)
    assert _broken(first, second).first_divergence == first
    assert _broken(second, first).first_divergence == first


def test_the_truth_comes_before_the_neighbours() -> None:
    """Of equal places the comparison with the reference is reported."""
    neighbour = Finding("replicas_agree", "x", step=1, observable="variables")
    truth = Finding("variables_match_reference", "y", step=1, observable="variables")
    assert _broken(neighbour, truth).first_divergence == truth


def test_a_finding_without_place_is_no_divergence() -> None:
    """A missing client has no first diverging step, and the text still works."""
    verdict = _broken(Finding("steps_match_reference", "2 clients ran"))
    assert verdict.first_divergence is None
    assert "steps_match_reference: 2 clients ran" in str(verdict)


def test_json_has_the_documented_keys() -> None:
    """The object of the command line's --json has exactly the promised keys and values."""
    found = _verdict(exact_case(loss_factor=4.0)).to_json()
    assert " ".join(found) == (
        "program strategy consistent first_divergence findings explanation tasks seconds laws tier resolution "
        "diagnostic"
    )
    assert found["consistent"] is False
    assert found["first_divergence"] == {
        "step": 1,
        "observable": "loss",
        "observed": 2.375,
        "expected": 0.59375,
        "bound": 0.0,
        "variable": None,
        "index": [],
    }
    assert found["findings"][0]["law"] == "loss_matches_reference"
    assert found["explanation"]["rule"] == "loss_times_replicas"
    assert found["tasks"] == {"worker:0": {"exit": 0}}
    assert (found["seconds"], found["tier"]) == (1.25, "exact")
    laws = {law["law"]: law for law in found["laws"]}
    assert laws["updates_counted"] == {
        "law": "updates_counted",
        "status": "not_judged",
        "reason": "no update by a coordinator",
        "worst_ratio": None,
    }
    assert laws["loss_matches_reference"]["worst_ratio"] == "inf"


def test_json_of_a_good_run_has_nulls() -> None:
    """Without divergence and explanation those entries are null."""
    found = _verdict(exact_case()).to_json()
    assert found["consistent"] is True
    assert found["findings"] == []
    assert [found[key] for key in ("first_divergence", "explanation", "diagnostic")] == [None] * 3


@pytest.mark.parametrize(("value", "text"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_json_is_strict(value: float, text: str) -> None:
    """Numbers that JSON lacks become strings, at any depth."""
    verdict = _verdict(_one(value, 1.0), tasks={"worker:0": {"load": [value, (value,)]}})
    found = verdict.to_json()
    assert found["first_divergence"]["observed"] == text
    assert found["tasks"]["worker:0"]["load"] == [text, [text]]
    assert msgspec.json.decode(msgspec.json.encode(found), strict=True) == found
