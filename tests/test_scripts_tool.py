"""The scripts that are verified unmodified: the catalogue agrees with them, and the table says what was found."""

from __future__ import annotations

import ast

import msgspec

from tools.scripts import PAGE, Result, table
from tools.sessions import SESSIONS
from tools.unmodified.cases import FOLDER, cases


def test_every_script_is_in_the_catalogue() -> None:
    """Each twin differs from its script, and is Python; there are enough, and enough of them are wrong."""
    known = cases()
    assert {case.script for case in known} == {
        path.stem for path in (FOLDER / "scripts").glob("*.py") if not path.stem.startswith("_")
    }
    for case in known:
        ast.parse(case.source)
        assert (case.answer == "inconsistent") <= (case.mistake is not None)
        assert (case.answer == "consistent") <= (case.mistake is None)
    assert len(known) >= 25
    assert 0.4 <= sum(case.mistake is not None for case in known) / len(known) <= 0.6


def test_the_table_counts() -> None:
    """An accusation of a right script, and a mistake that was accepted, stand in the sentence above it."""
    result = Result("a", "mirrored-2", None, "A.", "consistent", "consistent", None, None, None, 1.0)
    wrong = msgspec.structs.replace(
        result, name="a:b_c", mistake="b_c", outcome="inconsistent", rule="r", culprit="a:1"
    )
    text = table([result, msgspec.structs.replace(result, outcome="abstained"), wrong])
    assert text.startswith(
        "3 scripts: of 2 right ones 1 accepted, 1 not judged, 0 accused; of 1 with one mistake 1 found"
    )
    assert "| a | mirrored-2 | b c | inconsistent | r, a:1 |" in text


def test_sessions_are_those_of_the_tool() -> None:
    """The page has each command and, of a twin, the line that was changed; what it prints ends with an exit code."""
    page = PAGE.read_text().partition("<!-- sessions:begin -->")[2].partition("<!-- sessions:end -->")[0]
    for name, command in SESSIONS:
        (case,) = cases(name)
        assert f"$ {command}; echo $?" in page
        said = {"consistent": ": consistent", "inconsistent": "error["}
        assert said[case.answer] in page
    assert [line for line in page.splitlines() if line in ("0", "1")] == ["0", "1", "0", "1"]
