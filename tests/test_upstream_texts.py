"""Each known upstream defect has an issue text beside its program, written from a run of that very program."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.judging.known_issues import KnownIssue, registry
from tools.upstreaming.observed import FOLDER, Observed, about, digest, kept, observe
from tools.upstreaming.proposed import Counted, Tried, _read, has_fix, own_tests, tried
from tools.upstreaming.text import path_of, repository, text_of

ISSUES = pytest.mark.parametrize("issue", registry(), ids=[issue.id for issue in registry()])
_SAMPLE = "keras3-clip-before-reduction"


def test_texts_and_registry_belong_together() -> None:
    """No defect without a text, no text without a defect, and nothing is said of what is not in the registry."""
    ids = {issue.id for issue in registry()}
    assert {path.stem for path in FOLDER.glob("*.md")} == ids
    assert kept().keys() == ids
    assert about().keys() <= ids
    assert tried().keys() == {name for name in ids if has_fix(name)}


@ISSUES
def test_a_text_is_current(issue: KnownIssue) -> None:
    """It is what the tool makes of the entry, the program and its last run, and the program is the one that was run.

    If not, `python tools/upstream.py ID` runs it and writes the text.
    """
    seen = kept()[issue.id]
    assert seen.program == digest(issue.id)
    assert seen.lines or seen.raised or seen.hung
    change = tried().get(issue.id)
    assert path_of(issue.id).read_text() == text_of(issue, seen, change)
    if change is not None:
        assert (change.fix, change.seen.program) == (digest(f"{issue.id}.fix"), seen.program)


@ISSUES
def test_a_text_says_what_should_have_come(issue: KnownIssue) -> None:
    """Something observed, something expected, versions, a cause, and a repository in which to file it."""
    text = path_of(issue.id).read_text()
    for heading in ("Program", "Observed", "Expected", "Cause"):
        section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        assert len(section.strip().strip("`").strip()) > 2, heading
    assert "TensorFlow" in text or "tensorflow" in text
    assert repository(issue) in ("tensorflow/tensorflow", "keras-team/keras", "keras-team/tf-keras")


def test_another_output_and_another_program_make_another_text() -> None:
    """The numbers of a text are those of the run."""
    (issue,) = (each for each in registry() if each.id == _SAMPLE)
    seen = Observed("0", "3.11", {"keras": "3.15"}, ("wrong: a step of length 2.0 right: 1.0",))
    assert "a step of length 2.0\n" in text_of(issue, seen)
    assert "```text\n1.0\n```" in text_of(issue, seen)
    raised = Observed("0", "3.11", {"keras": "3.15"}, (), raised="ValueError: no")
    assert "ValueError: no" in text_of(issue, raised)


@pytest.mark.parametrize("name", sorted(tried()))
def test_a_proposed_change_mends_and_breaks_nothing(name: str) -> None:
    """With it the program found its numbers right; of the package's own tests that ran none fails that had passed."""
    change = tried()[name]
    assert not change.seen.raised
    assert change.seen.lines
    assert all(not line.startswith("wrong:") for line in change.seen.lines)
    assert change.seen.lines[0].startswith("as it should be:")
    assert own_tests(name)
    assert (change.before is None) == (change.after is None)
    if change.before is not None and change.after is not None:
        assert change.before.passed > 0
        assert set(change.after.failed) <= set(change.before.failed)


def test_what_a_change_breaks_is_told(tmp_path: Path) -> None:
    """Tests that fail with the change alone stand in the text by name; what is skipped is neither passed nor failed."""
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="a.B" name="test_c"><failure/></testcase>'
        '<testcase classname="a.B" name="test_d"/><testcase classname="a.B" name="test_e"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    assert _read(report) == Counted(1, ("B.test_c",))
    (issue,) = (each for each in registry() if each.id == _SAMPLE)
    seen = Observed("0", "3.11", {"keras": "3.15"}, ("as it should be: 1.0",))
    text = text_of(issue, seen, Tried("0", seen, Counted(2), _read(report)))
    assert "| with it | 1 | 1 |" in text
    assert "Failed with the change alone: B.test_c." in text
    assert "## Proposed change" not in text_of(issue, seen)


@pytest.mark.full
def test_a_run_shows_what_is_kept() -> None:
    """One program, run again, prints what its text says."""
    again, before = observe(_SAMPLE), kept()[_SAMPLE]
    if again.packages != before.packages:
        pytest.skip(f"the texts were written with {before.packages}")
    assert again.lines == before.lines
