"""Two judged runs held against each other, and `lockstep compare`."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from harness.cli import _lockstep
from harness.comparing import ComparedRun, compare_runs
from harness.evidence.trace import RunTrace
from harness.judging.laws import Case, judge_all
from harness.judging.verdict import Verdict
from tests._present import present
from tests.harness._called import usage_error
from tests.harness._traces import derived_case, edit, exact_case, values
from tests.harness.test_cli import TRAIN


def _side(case: Case, **said: Any) -> ComparedRun:
    return ComparedRun(Verdict("train.py:train", "synthetic", judge_all(case), **said), (case,))


def test_two_right_runs_of_different_topologies_agree() -> None:
    """What roundings may do in each of them is allowed between them, and all that both recorded is compared."""
    compared = compare_runs(_side(derived_case()), _side(derived_case(clients=3, local_replicas=1)))
    assert compared.outcome == "agree"
    assert set(compared.compared) == {"loss", "gradients", "variables", "metrics", "predictions"}
    assert 0 < present(compared.worst_ratio) <= 1
    assert "a and b agree" in "\n".join(compared.lines())


def test_a_right_and_a_wrong_run_differ_at_the_first_value() -> None:
    """The earliest difference comes first, with both numbers and what they may be apart."""
    compared = compare_runs(_side(derived_case()), _side(derived_case(loss_factor=2.0)))
    assert compared.outcome == "differ"
    first = compared.differences[0]
    assert (first.step, first.observable) == (1, "loss")
    assert first.b == pytest.approx(2 * present(first.a))
    assert "first difference: step 1, loss: a " in "\n".join(compared.lines())
    assert json.loads(json.dumps(compared.to_json()))["first_difference"]["step"] == 1


def test_an_error_of_twice_what_roundings_explain_is_found_and_half_of_it_is_not() -> None:
    """Both bounds together are allowed, and no more."""
    case = exact_case()
    bounded = derived_case()
    bound = float(bounded.tolerance.bound("loss", "loss", 3))
    loss = present(bounded.run.clients[0].steps[2].loss)
    found = []
    for factor in (1.5, 2.5):
        moved = values({"loss": loss.parts[0].numpy().astype("float64") + factor * bound})
        changed = edit(edit(bounded.run, 0, 3, loss=(moved or ())[0]), 1, 3, loss=(moved or ())[0])
        found.append(compare_runs(_side(bounded), _side(dataclasses.replace(bounded, run=changed))).outcome)
    assert found == ["agree", "differ"]
    assert compare_runs(_side(case), _side(exact_case(loss_factor=1 + 2**-23))).outcome == "differ"


def test_two_runs_that_are_wrong_alike_agree_and_are_said_to_be_wrong() -> None:
    """Agreement is no proof of being right."""
    compared = compare_runs(_side(exact_case(loss_factor=2.0)), _side(exact_case(loss_factor=2.0)))
    assert compared.outcome == "agree"
    assert "neither is what comes out on one device" in "\n".join(compared.lines())


def test_other_examples_are_a_difference() -> None:
    """A law about what was consumed that one run breaks is named, with what it found."""
    compared = compare_runs(_side(exact_case()), _side(exact_case(dropped=(5,))))
    assert compared.outcome == "differ"
    assert [(law.law, law.a, law.b) for law in compared.laws][:1] == [("examples_match_reference", "held", "broken")]


def test_a_value_that_one_run_lacks_is_a_difference() -> None:
    """As between a run and its reference."""
    case = exact_case()
    run = edit(edit(case.run, 0, 2, metrics=()), 1, 2, metrics=())
    compared = compare_runs(_side(case), _side(dataclasses.replace(case, run=run)))
    assert compared.differences[0].text == "step 2, metrics 'seen': recorded by a, but not by b"


def test_what_cannot_be_judged_is_not_said_to_agree() -> None:
    """One side whose reference shows nothing, or two that have recorded nothing in common."""
    case = exact_case()
    compared = compare_runs(_side(case), _side(case, abstained="not reproducible"))
    assert compared.outcome == "abstained"
    assert "b cannot be judged: not reproducible" in "\n".join(compared.lines())
    bare = tuple(msgspec.structs.replace(client, steps=(), final=None) for client in case.run.clients)
    other = _side(dataclasses.replace(case, run=RunTrace(bare)))
    assert "nothing at a step in common" in (compare_runs(_side(case), other).unjudged or "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("train.py:right",), "give both runs, such as --a"),
        (("train.py:right", "--a", "--strategy one_device"), "--b is missing"),
        (("train.py:right", "--a", "--strategy x", "--b", "--nothing"), "--b: No such option"),
        (("train.py:right", "--a", "mirrored-3", "--b", "x"), "--a: 'mirrored-3' is no option; write options of"),
        (("train.py:right", "--a", "mirrored-3", "--b", "x"), 'such as --a "--strategy mirrored-3"'),
        (("train.py:right", "--a", "--strategy one_device", "--b", "x"), 'such as --b "--strategy mirrored-2"'),
        (("train.py:right", "--a", "--out x", "--b", ""), "--a: --out is not for one side"),
        (("train.py:right", "--a", "--python", "--b", ""), "--python names the interpreter"),
        (("train.py:right", "--a", "--python /nowhere", "--b", ""), "there is no Python /nowhere"),
        (("train.py:right", "--a", "'", "--b", ""), "--a: No closing quotation"),
        (("train.py:right", "--a", "--strategy a --strategy b", "--b", ""), "a side is one run"),
        (("nothing", "nowhere"), "holds no run"),
        (("nothing", "nowhere", "--out", "x"), "--out keeps runs"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(arguments: tuple[str, ...], said: str) -> None:
    """Each usage error names its side and says what is expected."""
    assert said in usage_error("compare", *arguments)


def _compare(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(_lockstep, ["compare", *arguments], standalone_mode=False)
    return result.return_value, result.stdout


@pytest.mark.full
def test_one_command_runs_both_and_keeps_them(tmp_path: Path) -> None:
    """A wrong program differs where it has several replicas; what was kept can be compared again."""
    (tmp_path / "train.py").write_text(TRAIN)
    wrong, out = f"{tmp_path}/train.py:wrong", tmp_path / "out"
    options = ("--a", "--strategy one_device --exact", "--b", "--strategy mirrored-2 --exact --no-explain")
    code, text = _compare(wrong, *options, "--json", "--out", str(out))
    assert code == 1
    found = json.loads(text)
    assert found["outcome"] == "differ"
    assert found["a"]["consistent"]
    assert not found["b"]["consistent"]
    assert found["first_difference"]["observable"] == "loss"
    code, text = _compare(str(out / "a"), str(out / "b"))
    assert code == 1
    assert "a and b DIFFER" in text
    assert _compare(str(out / "a"), str(out / "a"))[0] == 0


@pytest.mark.full
def test_a_right_program_agrees_across_topologies_and_environments(tmp_path: Path) -> None:
    """Two topologies, and the same one by another Python."""
    (tmp_path / "train.py").write_text("def train(strategy, record):\n    record.step(loss=1.0)\n")
    program = f"{tmp_path}/train.py:train"
    python = f"--strategy one_device --python {sys.executable}"
    for other in ("--strategy mirrored-2", python):
        code, text = _compare(program, "--a", "--strategy one_device", "--b", other)
        assert (code, "a and b agree" in text) == (0, True), text
