"""The trials: that the catalogue, the programs and their marks agree, and what counts as named rightly."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from harness.judging.explain import all_rules
from harness.subject.program import Program
from harness.subject.strategies import strategy_case
from tools import mistakes
from tools import trials as tool
from tools.trying.cases import FOLDER, Trial, guilty_lines, trials
from tools.trying.running import Blame, Culprit, Result, as_expected, relabelled, result_of
from tools.trying.table import section, summary

SOURCE = """\
class Layer:
    def call(self, x):
        return x - mean(x)  # guilty: train_b

def train_a(strategy, record):
    loss = mean(  # guilty
        x
    )
    if loss > 1:  # guilty
        loss = 2

def train_b(strategy, record):
    loss = mean(x)  # guilty
"""


def _result(**changes: Any) -> Result:
    result = Result("one:a@mirrored-2", "one", "mirrored-2", "a mistake", "inconsistent", (7, 8), ("this_rule",))
    return msgspec.structs.replace(result, **changes)


def test_every_program_is_in_the_catalogue() -> None:
    """The functions of the files are those of the catalogue, and `verify` would take them."""
    written = {
        (file.stem, node.name)
        for file in (FOLDER / "programs").glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("train_")
    }
    assert {(trial.style, trial.function) for trial in trials()} == written
    for trial in {trial.style: trial for trial in trials()}.values():
        assert Program.of(trial.program).name == f"{trial.style}.py:{trial.function}"


def test_wrong_programs_have_guilty_lines_and_right_ones_none() -> None:
    """There are enough of both; rules and strategies exist; names say which are right."""
    known = {rule.id for rule in all_rules()}
    for trial in trials():
        assert bool(trial.guilty) == (trial.mistake is not None), trial.name
        assert (trial.mistake is None) == trial.function.startswith("train_right"), trial.name
        assert set(trial.rules) <= (known if trial.mistake else set()), trial.name
        assert strategy_case(trial.strategy).name == trial.strategy
    programs = {(trial.style, trial.function): trial.mistake is None for trial in trials()}
    assert sum(not right for right in programs.values()) >= 64
    assert sum(programs.values()) >= 36


def test_marks_name_whole_statements() -> None:
    """A mark covers its statement, of a compound one its line only; a named mark is that function's wherever it is."""
    assert guilty_lines(SOURCE, "train_a") == (6, 7, 8, 9)
    assert guilty_lines(SOURCE, "train_b") == (3, 13)


def test_programs_are_chosen_by_name() -> None:
    """A pattern is held against style, function and strategy."""
    assert {trial.style for trial in trials("eager:*")} == {"eager"}
    assert "multi_worker-2" in {trial.strategy for trial in trials("plain_variables:mean_then_sum@*")}
    refused = CliRunner().invoke(tool.main, ["--only", "nothing"])
    assert refused.exit_code == 2
    assert "nothing is called like 'nothing'" in refused.output


@pytest.mark.parametrize(
    ("changes", "blame", "expected"),
    [
        ({}, Blame("none", "none"), True),
        ({"rule": "this_rule", "culprit": Culprit("/a/one.py", 8)}, Blame("right", "right"), True),
        ({"rule": "other_rule"}, Blame("none", "wrong"), False),
        ({"culprit": Culprit("/a/one.py", 9)}, Blame("wrong", "none"), False),
        ({"culprit": Culprit("/a/other.py", 8)}, Blame("wrong", "none"), False),
        ({"outcome": "consistent"}, Blame("none", "none"), False),
        ({"outcome": "consistent", "condition": "own", "given": ("own",)}, Blame("none", "none"), True),
        ({"outcome": "consistent", "condition": "own", "given": ("other",)}, Blame("none", "none"), False),
        ({"outcome": "consistent", "given": ("own",)}, Blame("none", "none"), False),
        ({"mistake": None, "guilty": (), "rules": (), "outcome": "consistent"}, Blame("none", "none"), True),
        ({"mistake": None, "guilty": (), "rules": ()}, Blame("none", "none"), False),
    ],
)
def test_what_is_named_is_right_wrong_or_nothing(changes: dict[str, Any], blame: Blame, expected: bool) -> None:
    """The line has to be a guilty one of the program's file, the rule one of the catalogue's."""
    result = _result(**changes)
    assert result.blame == blame
    assert as_expected(result) == expected


def test_the_page_has_before_and_now() -> None:
    """Totals of the same programs stand next to each other, and accused right programs are shown."""
    now = _result(rule="this_rule", culprit=Culprit("/a/one.py", 7, "loss = 1"))
    accused = _result(name="one:right@mirrored-2", mistake=None, guilty=(), rules=(), rule="other_rule")
    before = {now.name: _result()}
    page = section([now, accused], before)
    assert "| wrong programs, before | 1 | 1 | 0 | 0 | 0 | 1 | 0 | 0 | 1 |" in page
    assert "| wrong programs | 1 | 1 | 0 | 1 | 0 | 0 | 1 | 0 | 0 |" in page
    assert "| `one:right@mirrored-2` | right | none | wrong |" in page
    assert "7: `loss = 1`; `this_rule`" in page
    assert "before" not in summary([now], {})


def test_a_file_is_resumed(tmp_path: Path) -> None:
    """What a file has is not run again, and is held against what the catalogue says by now."""
    trial = trials("eager:right@*")[0]
    earlier = Result(trial.name, trial.style, trial.strategy, "once thought wrong", "consistent", (3,))
    assert relabelled(earlier, trial).mistake is None
    file = tmp_path / "trials.json"
    file.write_bytes(msgspec.json.encode([earlier]))
    done = CliRunner().invoke(tool.main, ["--only", trial.name, "--json", str(file), "--resume"])
    assert done.exit_code == 0, done.output
    assert f"| `{trial.name}` | right | none | none |" in done.output


def test_trials_are_frozen_data() -> None:
    """A trial can be sent to another process and is the same there."""
    trial = Trial("eager", "train_right", "mirrored-2")
    assert msgspec.json.decode(msgspec.json.encode(trial), type=Trial) == trial


def test_a_page_shows_no_mistake_twice_and_as_many_codes_as_there_are() -> None:
    """What is right, or was not found, is on it no more than counted."""
    told = [
        ("a", "error[x]: a\n1"),
        ("a", "error[y]: a\n1\n2"),
        *((f"b{number}", "error[x]: b") for number in range(30)),
    ]
    results = [_result(name=str(number), mistake=name, diagnostic=text) for number, (name, text) in enumerate(told)]
    results += [_result(mistake="c", diagnostic="error[y]: c"), _result(mistake=None, outcome="consistent")]
    page = mistakes.section(results)
    assert "diagnostics of 33 trials have 1 lines in the median, and 3 at most" in page
    assert page.count("\n## ") == 20
    assert page.count("## A\n") == 1
    assert "error[y]: c" in page


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        "tf_keras_loop:adagrad_of_parts@mirrored-2",
        "state:share_of_first_replica@multi_worker-2",
        "keras_fit:step_builds_optimizer@mirrored-2",
    ],
)
def test_what_once_had_a_wrong_line_or_reason_is_blamed_rightly(name: str) -> None:
    """Parts in an optimizer that squares them, state that is no gradient, and slots that the first step makes."""
    (trial,) = trials(name)
    result = result_of(trial, explain=True, timeout=120.0)
    assert as_expected(result), result.text
    assert result.blame == Blame("right", "right" if trial.rules else "none")


@pytest.mark.full  # in the quick profile tests/harness/test_noise.py moves such a gradient
def test_what_once_was_accused_is_consistent() -> None:
    """A gradient that is nothing but rounding, of whole numbers and constants that no noise moves."""
    (trial,) = trials("plain_variables:right_centered_rewards@mirrored-2")
    result = result_of(trial, explain=True, timeout=120.0)
    assert as_expected(result), result.text
