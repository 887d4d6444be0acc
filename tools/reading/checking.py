"""The rules of the house for prose: what each finds on a page, with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.reading.figures import rules
from tools.reading.pages import CODE, Block, blocks, sentences, word_count

# Longer sentences are read twice.
WORDS_MAX = 30


def findings(page: str) -> Iterator[tuple[int, str]]:
    """(line, what to do) for everything on a page that breaks a rule."""
    there = list(blocks(page))
    yield from _beginning(there)
    for block in there:
        for sentence in sentences(block.text):
            shown = sentence.replace(CODE, "`...`")
            if word_count(sentence) > WORDS_MAX and block.kind != "heading":
                yield block.line, f"{word_count(sentence)} words, not more than {WORDS_MAX}: {shown}"
            for said in (*_of_the_old_style(block, sentence), *_for_another(sentence)):
                yield block.line, f"{said}: {shown}"


def _of_the_old_style(block: Block, sentence: str) -> Iterator[str]:
    for rule in rules()["rule"]:
        found = re.search(rule["pattern"], sentence)
        if found is not None and block.kind not in rule.get("not_in", ()):
            yield f"`{found[0]}`: {rule['say']}"


def _for_another(sentence: str) -> Iterator[str]:
    for term, others in rules()["instead"].items():
        for other in others:
            if re.search(rf"\b{re.escape(other)}\b", sentence, re.IGNORECASE):
                yield f"`{other}`: the glossary's word is `{term}`"


def _beginning(there: list[Block]) -> Iterator[tuple[int, str]]:
    """After its title a page has an example, or a sentence with subject and verb."""
    first = next((block for block in there if block.kind != "heading"), None)
    if first is None or first.kind == "code":
        return
    opening = sentences(first.text)[0]
    if first.kind != "paragraph" or not re.search(rules()["verbs"], opening, re.VERBOSE):
        yield (
            first.line,
            f"begin with an example, or a sentence with a verb (tools/reading/rules.toml lists them): {opening}",
        )
