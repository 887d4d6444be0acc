"""The words by hand: how they are counted, and that a sentence against the rules of the house does not pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import prose, words
from tools.reading.checking import findings
from tools.reading.figures import figures, glossary, rules
from tools.reading.pages import blocks, sentences

ROOT = Path(__file__).parent.parent
RIGHT = "# Runs\n\nA run leaves a trace, and Lockstep reads it.\n"
# What is planted after a right page, and a piece of what has to be said of it.
PLANTED = {
    "Lockstep reads what is kept of a run.": "a participle is no noun",
    "Lockstep shows what was recorded.": "a participle is no noun",
    "What the run has left is read again.": "a clause is no subject",
    "Whoever has the mark dies.": "a clause is no subject",
    "Each client is asked for its steps.": "say who asks",
    "The size asked for counts.": "name who asks",
    "Numbers of the next run are others.": "say `differs`",
    "A verdict abstains without a reference.": "the glossary's word is `not judged`",
    "The golden values are in the file.": "the glossary's word is `reference`",
    " ".join(["Lockstep"] + ["runs"] * 30) + ".": "31 words, not more than 30",
}
TABLE = "| a | b |\n|---|---|\n| three more words | `one two` |\n"


@pytest.mark.full  # `make check` runs the same
def test_every_page_keeps_the_rules() -> None:
    """README, the other pages and the whole of them."""
    assert [f"{name}:{line}: {said}" for name, text in words.pages().items() for line, said in findings(text)] == []
    assert sum(one.words for one in words.counted(words.pages()).values()) <= words.WORDS_MAX


@pytest.mark.parametrize("sentence", PLANTED)
def test_a_planted_sentence_is_found(sentence: str) -> None:
    """With its line, and with what to do about it; the page without it has nothing."""
    assert list(findings(RIGHT)) == []
    (line, said), *_ = findings(f"{RIGHT}\n{sentence}\n")
    assert line == 5
    assert PLANTED[sentence] in said


@pytest.mark.parametrize(
    "opening", ["Runs of unmodified programs.", "- an item\n", "| a | b |\n|---|---|\n| c | d |\n"]
)
def test_a_page_that_begins_with_neither_an_example_nor_a_sentence_is_found(opening: str) -> None:
    """A noun without a verb, a list and a table are no beginning; a code block is one."""
    (line, said), *_ = findings(f"# Runs\n\n{opening}\n")
    assert line == 3
    assert said.startswith("begin with an example")
    assert list(findings("# Runs\n\n    lockstep run\n")) == []


def test_code_and_generated_regions_are_no_prose() -> None:
    """Neither for the rules nor for the count; a table by hand is, and a code span counts as it is read."""
    hidden = "```text\nWhoever asked for it.\n```\n\n<!-- made:begin -->\nWhoever asked for it.\n\n<!-- made:end -->\n"
    assert list(findings(f"{RIGHT}\n{hidden}")) == []
    assert figures(f"{RIGHT}\n{hidden}", []).words == figures(RIGHT, []).words == 10
    assert figures(f"{RIGHT}\n{TABLE}", []).words == 10 + 2 + 5


def test_sentences_end_where_a_reader_ends_them() -> None:
    """Not after an abbreviation, nor before a small letter."""
    assert len(sentences("One, e.g. this. Two! Three? 4 ends. And `code` begins.")) == 5


def test_passive_voice_and_terms_without_an_explanation_are_counted() -> None:
    """A term is explained in bold, in italics, in a link or a heading of the page, or in the glossary."""
    page = "# Runs\n\nThe file was never read. The warden reads it. A **gate** stops; the [relay](x.md) waits.\n"
    found = figures(page, ["run"])
    assert (found.sentences, found.passive) == (3, 1)
    assert found.undefined == {"warden"}
    assert figures(page, ["run", "warden"]).undefined == frozenset()


def test_the_glossary_has_thirty_terms_at_most_and_the_words_that_are_not_to_stand_for_them() -> None:
    """Rules name terms that are there."""
    page = (ROOT / "docs" / "glossary.md").read_text()
    assert sum(block.kind == "cell" for block in blocks(page)) // 2 - 1 <= 30
    assert set(rules()["instead"]) <= set(glossary(page))


def test_the_command_ends_with_1_where_a_page_breaks_a_rule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the page, the line and the rule."""
    monkeypatch.setattr(prose, "pages", lambda: {"docs/glossary.md": "# G\n", "docs/x.md": f"{RIGHT}\nWhoever asks.\n"})
    with pytest.raises(SystemExit) as end:
        prose.main([])
    assert end.value.code == 1
    assert capsys.readouterr().out.startswith("docs/x.md:5: `Whoever`: a clause is no subject")
