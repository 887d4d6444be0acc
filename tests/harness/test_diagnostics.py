"""Diagnostics: the sentence, the line with what is meant underlined, the numbers, the cure; forms of machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from _lockstep import __version__
from harness.cli.explain import explain as explain_command
from harness.judging.conditions import GIVEN_BACK, ORDER, Condition
from harness.judging.culprit import Culprit, Looked
from harness.judging.culprit.kinds import LOSS, MEAN, NUMBER, REPORT, TWICE, MistakeKind
from harness.judging.diagnostics import Diagnostic, Label, diagnostic_of, diagnostic_text, text_of
from harness.judging.diagnostics.codes import all_codes
from harness.judging.diagnostics.formats import ReportedVerdict, all_formats
from harness.judging.diagnostics.from_verdict import label_of
from harness.judging.explain.protocol import Explanation
from harness.judging.laws.protocol import Finding, Judgement
from harness.judging.verdict import Verdict
from harness.relations.proof import Counterexample, Proof, SourcePlace, Suspect
from tests._present import present

_SOURCE = """\
def replica(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(losses(y, model(x)))
    return strategy.reduce("SUM", loss, axis=None)
"""
_FOUND = Finding("loss_matches_reference", "off", None, 2, "loss", None, (), 4.0, 2.0, 1e-6)
_WHY = Explanation("loss_times_replicas", "The loss is twice as large.", "Divide by the global batch.")


@pytest.fixture
def place(here: Path) -> Path:
    """A directory with a program, which is the current one."""
    (here / "train.py").write_text(_SOURCE)
    return here


def _wrong(**changes: Any) -> Verdict:
    culprit = Culprit(
        "train.py",
        3,
        "loss = tf.reduce_mean(losses(y, model(x)))",
        "Mean",
        None,
        "each replica's mean is over its own 2 of 4 examples",
        "expected 2, found 4",
        (),
        2,
        adds=("train.py", 4, 'return strategy.reduce("SUM", loss, axis=None)'),
    )
    judged = Judgement(_FOUND.law, "broken", findings=(_FOUND,))
    verdict = Verdict("train.py:train", "mirrored-2", (judged,), explanation=_WHY, looked=Looked(culprit, None, 1.0))
    return replace(verdict, **changes)


@pytest.mark.usefixtures("place")
def test_a_mistake_is_shown_as_a_compiler_shows_it() -> None:
    """The expression is underlined, and so is what adds up; numbers and cure follow."""
    assert text_of(_wrong(conditions=(Condition(ORDER, "the run's own order"),)), 100) == (
        "error[loss_times_replicas]: the loss is too large by the number of replicas or workers\n"
        " --> train.py:3 (train.py:train under mirrored-2)\n"
        "3 | loss = tf.reduce_mean(losses(y, model(x)))\n"
        "  |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ each replica's mean is over its own 2 of 4 examples\n"
        '4 | return strategy.reduce("SUM", loss, axis=None)\n'
        "  |        --------------------------------------- adds up what the replicas have\n"
        "  = step 2: loss is 4, on one device 2 (rounding: 1e-06)\n"
        "  = note: given the run's own order\n"
        "help: Divide by the global batch."
    )


@pytest.mark.parametrize("kind", [NUMBER, TWICE, LOSS, MEAN, None])
def test_a_line_that_tells_more_than_the_numbers_has_the_help(kind: MistakeKind | None) -> None:
    """A factor of 2 may be that of means that are summed: not where all replicas have the same."""
    wrong = _wrong()
    assert wrong.looked is not None
    assert wrong.looked.culprit is not None
    culprit = replace(wrong.looked.culprit, kind=None if kind is None else kind.code)
    told = diagnostic_of(replace(wrong, looked=replace(wrong.looked, culprit=culprit)))
    assert told is not None
    assert told.code == "loss_times_replicas"
    assert told.help == (_WHY.cure if kind is None or kind is MEAN else kind.cure)


@pytest.mark.usefixtures("place")
def test_styles_change_no_letter() -> None:
    """Without what a terminal makes colours of it is the same text."""
    plain, painted = (text_of(_wrong(), 100, paint) for paint in (None, lambda style, text: f"\0{text}\0"))
    assert painted.replace("\0", "") == plain
    assert painted.startswith("\0error[loss_times_replicas]\0:")


@pytest.mark.parametrize(
    ("what", "code", "is_told"),
    [("variables", GIVEN_BACK, True), ("variables", ORDER, False), ("examples", GIVEN_BACK, False)],
)
def test_what_is_given_back_may_decide_what_nothing_else_explains(what: str, code: str, is_told: bool) -> None:
    """As a rate that the program sets by the loss: it is no finding itself, since it may only be printed."""
    found = Finding(f"{what}_match_reference", "off", None, 2, what, "rate", (), 0.05, 0.035, 0.0)
    given = Condition(code, "that what step gives back is 2 times what one device gets")
    verdict = Verdict(
        "train.py", "mirrored-2", (Judgement(found.law, "broken", findings=(found,)),), conditions=(given,)
    )
    told = diagnostic_of(verdict)
    assert told is not None
    assert ("Give back what one device gets" in told.help) is is_told


def test_without_a_line_the_program_is_named() -> None:
    """Nor is there an excerpt; a value has its name and place."""
    found = Finding("variables_match_reference", "off", None, None, "variables", "w", (1, 2), 3.0, 2.0, 0.0)
    judged = Judgement(found.law, "broken", findings=(found,))
    assert text_of(Verdict("train.py:train", "mirrored-2", (judged,))).splitlines() == [
        "error[variables_match_reference]: variable 'w' is not what one device computes",
        " --> train.py:train under mirrored-2",
        "  = at the end: w[1, 2] is 3, on one device 2",
    ]


def test_what_a_step_begins_with_is_said_in_a_sentence() -> None:
    """The numbers are a fact below it."""
    found = Finding("begins_alike", "before step 1, observed 2", None, None, "start", "rate", (), 2.0, 1.0, 0.0)
    told = diagnostic_of(Verdict("train.py:train", "mirrored-2", (Judgement(found.law, "broken", findings=(found,)),)))
    assert told is not None
    assert told.title == "variable 'rate' begins a step with another value than on one device"
    assert told.facts == (found.text,)


@pytest.mark.usefixtures("place")
def test_without_a_rule_the_line_says_what_is_wrong() -> None:
    """The code is that of the law that is broken; where no line is named it is said why."""
    found = present(diagnostic_of(_wrong(explanation=None)))
    assert (found.code, found.title) == (_FOUND.law, "the loss is not what one device computes")
    assert present(found.label).text == "each replica's mean is over its own 2 of 4 examples"
    found = present(diagnostic_of(_wrong(looked=Looked(None, "it was made outside of TensorFlow", 1.0))))
    assert "no line is named: it was made outside of TensorFlow" in found.facts


@pytest.mark.usefixtures("place")
def test_without_a_rule_the_values_at_the_line_name_the_mistake() -> None:
    """Also where no line is named; what a rule says goes first, and values that prove nothing leave the law's code."""
    verdict = _wrong(explanation=None)
    proved = replace(verdict, looked=Looked(replace(present(verdict.culprit), kind=MEAN.code), None, 1.0))
    reported = replace(verdict, looked=Looked(None, REPORT.says, 1.0, REPORT.code))
    for one, kind in ((proved, MEAN), (reported, REPORT)):
        found = present(diagnostic_of(one))
        assert (found.code, found.title, found.help) == (kind.code, kind.says, kind.cure)
    ruled = present(diagnostic_of(replace(proved, explanation=_WHY)))
    assert (ruled.code, ruled.help) == (_WHY.rule, _WHY.cure)
    bare = present(diagnostic_of(verdict))
    assert (bare.code, bare.help) == (_FOUND.law, "")


def test_a_batch_that_refutes_has_its_line() -> None:
    """The numbers are those of the batch."""
    shown = Counterexample((1, 2), "variable 'w'", 1.0, 2.0)
    where = SourcePlace("train.py", 3, "loss = tf.reduce_mean(losses(y, model(x)))", "Mean")
    proof = Proof("refuted", "p", "s", suspects=(Suspect(where, "Mean of its own", "w", True, shown),))
    held = Judgement(_FOUND.law, "held", suffices=True)
    found = present(diagnostic_of(Verdict("p", "s", (held,), proof=proof)))
    assert (found.code, found.facts) == ("refuted", (shown.text,))
    assert present(found.label).where == "train.py:3"


def test_what_is_not_judged_is_a_warning() -> None:
    """With its reason; what is consistent is no diagnostic."""
    found = present(diagnostic_of(Verdict("p", "s", (), abstained="it differs from run to run.")))
    assert found.head == "warning[not_judged]: it differs from run to run"
    held = Judgement(_FOUND.law, "held", suffices=True)
    assert diagnostic_of(Verdict("p", "s", (held,))) is None


@pytest.mark.parametrize(
    ("source", "operation", "meant"),
    [
        ("loss = tf.reduce_mean(f(x)) / tf.cast(n, x.dtype)", "Mean", "tf.reduce_mean(f(x))"),
        ("loss = tf.reduce_mean(f(x)) / n", "RealDiv", "tf.reduce_mean(f(x)) / n"),
        ("return g(loss)", "Sum", "g(loss)"),
        ("größe = tf.reduce_sum(x)", "Sum", "tf.reduce_sum(x)"),
        ("for x in data:", "", "for x in data:"),
        ("if not (:", "Mean", "if not (:"),
    ],
)
def test_the_expression_that_made_an_operation_is_meant(
    tmp_path: Path, source: str, operation: str, meant: str
) -> None:
    """Of several the call of that name, else what the statement assigns or returns, else the line."""
    file = tmp_path / "train.py"
    file.write_text(f"# before\n{source}\n")
    label = label_of(str(file), 2, "", operation=operation)
    assert label.source[label.begin : label.end] == meant


@pytest.mark.parametrize(
    ("source", "operation", "among", "meant"),
    [
        ("return g * (1.0 / (norm * n))", "Mul", (0, 2), "norm * n"),
        ("return g * (1.0 / (norm * n))", "Mul", (1, 2), "g * (1.0 / (norm * n))"),
        ("return g * (1.0 / (norm * n))", "Mul", (2, 4), "norm * n"),  # the line is run twice
        ("return g * (1.0 / (norm * n))", "Mul", (0, 3), "g * (1.0 / (norm * n))"),  # nobody knows
        ("return g * (1.0 / (norm * n))", "Mul", None, "g * (1.0 / (norm * n))"),
        ("return g * (1.0 / (norm * n))", "RealDiv", None, "1.0 / (norm * n)"),
        ("h = h + 0.1 * (y - tf.matmul(x, w))", "Mul", (0, 1), "0.1 * (y - tf.matmul(x, w))"),
        ("h = h + 0.1 * (y - tf.matmul(x, w))", "Sub", (0, 1), "y - tf.matmul(x, w)"),
        ("h = tf.multiply(h, f(x) - 1)", "Mul", (0, 1), "tf.multiply(h, f(x) - 1)"),
        ("loss += 0.1 * tf.nn.l2_loss(w)", "AddV2", (0, 1), "0.1 * tf.nn.l2_loss(w)"),
        ("loss = -tf.reduce_mean(x)", "Neg", (0, 1), "-tf.reduce_mean(x)"),
        ("if a * b > 1: c = d", "Mul", (0, 1), "a * b"),
    ],
)
def test_of_several_operators_the_one_is_meant_that_made_an_operation(
    tmp_path: Path, source: str, operation: str, among: tuple[int, int] | None, meant: str
) -> None:
    """Python comes to operators in the order in which operations are made, operands first."""
    file = tmp_path / "train.py"
    file.write_text(f"# before\n{source}\n")
    label = label_of(str(file), 2, "", operation=operation, among=among)
    assert label.source[label.begin : label.end] == meant


def test_a_long_line_is_shown_as_far_as_it_fits() -> None:
    """From a little before the expression on, with what was cut off marked; wide letters take two columns."""
    source = f"{'x' * 200} = tf.reduce_mean(losses) + {'y' * 200}"
    label = Label("train.py", 3, source, 203, 225, "a mean")
    found = Diagnostic("error", "code", "wrong", "p", "s", label=label)
    shown, marks = diagnostic_text(found, 60).splitlines()[2:4]
    assert shown.startswith("3 | …")
    assert shown.endswith("…")
    assert all(len(line) <= 60 for line in (shown, marks))
    assert shown[marks.index("^") :].startswith("tf.reduce_mean(losses)")
    wide = Label("train.py", 3, 'x = "日本"; y = f(x)', 14, 18, "")
    shown, marks = diagnostic_text(msgspec.structs.replace(found, label=wide), 60).splitlines()[2:4]
    assert marks == f"  | {' ' * 16}^^^^"
    whole = Label("train.py", 3, "x = f(x)", 0, 8, "")
    for width in range(12, 20):  # of which one leaves no column beside the marks
        assert "  | ^^^^^^^^" in diagnostic_text(msgspec.structs.replace(found, label=whole), width).splitlines()


def test_a_file_that_has_changed_is_not_quoted(place: Path) -> None:
    """The line is shown as it was when it ran."""
    (place / "other.py").write_text("x = 1\ny = 2\n")
    label = label_of("other.py", 2, "", source="y = f(3)")
    assert (label.source, label.source[label.begin : label.end]) == ("y = f(3)", "f(3)")
    assert not label.exact  # so no column of the file is told
    found = Diagnostic("error", "code", "wrong", "p", "s", label=label)
    reported = [ReportedVerdict("p", "p", "s", 0.0, found)]
    assert "col=" not in all_formats()["github"].written(reported)
    assert "startColumn" not in all_formats()["sarif"].written(reported)


def _reported() -> list[ReportedVerdict]:
    diagnostics = [diagnostic_of(_wrong()), diagnostic_of(Verdict("p", "s", (), abstained="it, differs: 5 %\n2")), None]
    return [
        ReportedVerdict("src/train.py", "train.py:train", f"mirrored-{k}", 1.5, each)
        for k, each in enumerate(diagnostics, start=2)
    ]


@pytest.mark.usefixtures("place")
def test_github_has_a_command_for_each_line() -> None:
    """What is text in it is escaped."""
    wrong, unjudged = all_formats()["github"].written(_reported()).splitlines()
    head = (
        "::error file=train.py,line=3,endLine=3,title=lockstep%3A loss_times_replicas,col=16,endColumn=50::the loss is"
    )
    assert wrong.startswith(head)
    assert wrong.endswith("(rounding: 1e-06)%0Ahelp: Divide by the global batch.")
    assert unjudged.startswith("::warning title=lockstep%3A not_judged::it, differs: 5 %25%0A2%0Ap under s")


@pytest.mark.parametrize("runner", ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"])
def test_files_are_named_as_from_the_root_that_a_runner_knows(
    runner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a pull request shows nothing at its line where the programs are in a folder of the repository."""
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    monkeypatch.setenv(runner, str(tmp_path))
    for form in ("github", "gitlab", "sarif"):
        assert "sub/train.py" in all_formats()[form].written(_reported()), form
    monkeypatch.setenv(runner, str(tmp_path / "elsewhere"))
    assert "sub/train.py" not in all_formats()["github"].written(_reported())


@pytest.mark.usefixtures("place")
def test_sarif_has_what_the_standard_asks_for() -> None:
    """Regions count from 1 and end behind their last column; a fingerprint outlives other lines and other numbers."""
    log = json.loads(all_formats()["sarif"].written(_reported()))
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    run = log["runs"][0]
    assert run["tool"]["driver"]["version"] == __version__
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {"loss_times_replicas", "not_judged"}
    wrong, unjudged = run["results"]
    assert (wrong["level"], wrong["ruleId"], unjudged["level"]) == ("error", "loss_times_replicas", "warning")
    physical = wrong["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "train.py"}
    assert {key: physical["region"][key] for key in ("startLine", "startColumn", "endColumn")} == {
        "startLine": 3,
        "startColumn": 16,
        "endColumn": 51,
    }
    assert wrong["relatedLocations"][0]["message"] == {"text": "adds up what the replicas have"}
    location = {"artifactLocation": {"uri": "src/train.py"}, "region": {"startLine": 1}}
    assert unjudged["locations"] == [{"physicalLocation": location}]
    Path("train.py").write_text("\n\n" + _SOURCE)
    moved = _wrong()
    moved = replace(moved, looked=replace(present(moved.looked), culprit=replace(present(moved.culprit), line=5)))
    again = json.loads(all_formats()["sarif"].written([ReportedVerdict("p", "p", "s", 0.0, diagnostic_of(moved))]))
    assert again["runs"][0]["results"][0]["partialFingerprints"] == wrong["partialFingerprints"]


@pytest.mark.usefixtures("place")
def test_junit_passes_only_what_is_consistent() -> None:
    """What is wrong is a failure, and what is not judged an error."""
    suite = present(ET.fromstring(all_formats()["junit"].written(_reported())).find("testsuite"))
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "time")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "time": "4.500",
    }
    wrong, unjudged, right = suite.findall("testcase")
    assert wrong.get("classname") == "src/train.py:train"
    failure = present(wrong.find("failure"))
    assert failure.get("type") == "loss_times_replicas"
    assert unjudged.find("error") is not None
    assert not [*right]


@pytest.mark.usefixtures("place")
def test_gitlab_has_a_place_for_each() -> None:
    """Of what has no line it is the program."""
    wrong, unjudged = json.loads(all_formats()["gitlab"].written(_reported()))
    assert wrong["location"] == {"path": "train.py", "lines": {"begin": 3}}
    assert (wrong["check_name"], wrong["severity"]) == ("loss_times_replicas", "critical")
    assert unjudged["location"] == {"path": "src/train.py", "lines": {"begin": 1}}
    assert wrong["fingerprint"] != unjudged["fingerprint"]


@pytest.mark.parametrize("form", sorted(all_formats()))
def test_a_form_of_nothing_wrong_is_whole(form: str) -> None:
    """It is read all the same."""
    text = all_formats()[form].written([ReportedVerdict("p", "p", "s", 1.0, None)])
    whole: dict[str, Callable[[], bool]] = {
        "github": lambda: text == "",
        "gitlab": lambda: json.loads(text) == [],
        "sarif": lambda: json.loads(text)["runs"][0]["results"] == [],
        "junit": lambda: ET.fromstring(text).find("testsuite/testcase") is not None,
    }
    assert whole[form]()


@pytest.mark.parametrize(("strict", "conditions", "denied"), [
    (True, (Condition(ORDER, "the run's own order"),), True),
    (True, (), False),
    (False, (Condition(ORDER, "the run's own order"),), False),
])  # fmt: skip
def test_what_strict_denies_is_the_headline(strict: bool, conditions: tuple[Condition, ...], denied: bool) -> None:
    """In each form; without --strict, or without a condition, the run is consistent."""
    held = Judgement("loss_matches_reference", "held", suffices=True)
    verdict = Verdict("train.py:train", "mirrored-2", (held,), conditions=conditions, strict=strict)
    assert verdict.consistent
    assert verdict.headline.startswith("error[only_given_conditions]: the run is consistent only given") is denied
    assert ("  = note: given the run's own order" in text_of(verdict).replace("\n = ", "\n  = ")) is denied
    assert (verdict.to_json()["diagnostic"] is not None) is denied


def test_each_code_says_something() -> None:
    """No two kinds share a code."""
    codes = all_codes()
    assert all(code.says and not code.says.endswith(".") for code in codes.values())
    assert {"loss_times_replicas", "auto_shard_off", "replicas_agree", "not_judged", "refuted"} <= codes.keys()
    assert codes["clipped_before_reduce"].cure


def test_explain_shows_the_way_out_of_a_known_issue(capsys: pytest.CaptureFixture[str]) -> None:
    """In a sentence, and as the program that the tests run; where a version is the cure, in the sentence alone."""
    explain_command.main(["keras3-clip-before-reduction"], standalone_mode=False)
    said = capsys.readouterr().out
    assert "help: way out: an optimizer whose `apply` sums" in said
    assert "class ClippedSGD(keras.optimizers.SGD):" in said
    explain_command.main(["keras3-seed-state-mean"], standalone_mode=False)
    assert capsys.readouterr().out.rstrip().endswith("help: way out: Keras 3.8 or later")


def test_explain_names_the_nearest_code(capsys: pytest.CaptureFixture[str]) -> None:
    """A code in a few lines; a typo in one."""
    explain_command.main(["gradients_not_reduced"], standalone_mode=False)
    assert capsys.readouterr().out.startswith("gradients_not_reduced (rule): each replica applied its own gradient")
    with pytest.raises(Exception, match="did you mean replicas_agree"):
        explain_command.main(["replica_agree"], standalone_mode=False)


def test_a_diagnostic_is_read_back() -> None:
    """It stands in a verdict's JSON."""
    found = _wrong().to_json()["diagnostic"]
    assert msgspec.convert(found, Diagnostic) == diagnostic_of(_wrong())
