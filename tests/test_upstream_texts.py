"""Each known upstream defect has an issue text beside its program, written from a run of that very program."""

from __future__ import annotations

import pytest

from harness.judging.known_issues import KnownIssue, registry
from tools.upstreaming import text as written
from tools.upstreaming.observed import FOLDER, Observed, digest, kept, observe
from tools.upstreaming.text import path_of, repository, text_of

ISSUES = pytest.mark.parametrize("issue", registry(), ids=[issue.id for issue in registry()])
_SAMPLE = "keras3-clip-before-reduction"


def test_texts_and_registry_belong_together() -> None:
    """No defect without a text, no text without a defect, and nothing is said of what is not in the registry."""
    ids = {issue.id for issue in registry()}
    assert {path.stem for path in FOLDER.glob("*.md")} == ids
    assert kept().keys() == ids
    assert written._about().keys() <= ids


@ISSUES
def test_a_text_is_current(issue: KnownIssue) -> None:
    """It is what the tool makes of the entry, the program and its last run, and the program is the one that was run.

    If not, `python tools/upstream.py ID` runs it and writes the text.
    """
    seen = kept()[issue.id]
    assert seen.program == digest(issue.id)
    assert seen.lines or seen.raised or seen.hung
    assert path_of(issue.id).read_text() == text_of(issue, seen)


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


@pytest.mark.full
def test_a_run_shows_what_is_kept() -> None:
    """One program, run again, prints what its text says."""
    again, before = observe(_SAMPLE), kept()[_SAMPLE]
    if again.packages != before.packages:
        pytest.skip(f"the texts were written with {before.packages}")
    assert again.lines == before.lines
