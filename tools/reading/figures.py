"""What a page has of words, long sentences, passive voice and terms that nobody explains."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tools.reading.pages import Block, blocks, sentences, word_count

_RULES = Path(__file__).with_name("rules.toml")
_PROSE = ("paragraph", "item")


@dataclass(frozen=True)
class Figures:
    """Of one page, or of several together."""

    words: int
    sentences: int
    words_of_sentences: int
    passive: int
    undefined: frozenset[str]

    @property
    def words_per_sentence(self) -> float:
        """The mean length of its sentences, of which a code span is one word."""
        return self.words_of_sentences / max(1, self.sentences)

    @property
    def passive_share(self) -> float:
        """The share of sentences with a verb in the passive voice."""
        return self.passive / max(1, self.sentences)

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.words + other.words,
            self.sentences + other.sentences,
            self.words_of_sentences + other.words_of_sentences,
            self.passive + other.passive,
            self.undefined | other.undefined,
        )


@cache
def rules() -> dict[str, Any]:
    """What tools/reading/rules.toml says."""
    return dict(msgspec.toml.decode(_RULES.read_text()))


def glossary(page: str) -> list[str]:
    """The terms of docs/glossary.md, in lower case."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|", page, re.MULTILINE)
    return [term.strip().lower() for terms in rows for term in terms.split(",")]


def figures(page: str, terms: Iterable[str]) -> Figures:
    """Count what somebody reads on a page; `terms` are those of the glossary."""
    there = list(blocks(page))
    read = [sentence for block in there if block.kind in _PROSE for sentence in sentences(block.text)]
    passive = re.compile(rules()["passive"], re.IGNORECASE | re.VERBOSE)
    return Figures(
        words=sum(block.words for block in there),
        sentences=len(read),
        words_of_sentences=sum(map(word_count, read)),
        passive=sum(bool(passive.search(sentence)) for sentence in read),
        undefined=frozenset(_undefined(there, terms)),
    )


def _undefined(there: list[Block], terms: Iterable[str]) -> set[str]:
    """Terms of ours that the page uses, and that neither the glossary nor the page explains."""
    explained = " ".join(text for block in there for text in block.explained) + " " + " ".join(terms)
    text = " ".join(block.text for block in there if block.kind in _PROSE).lower()
    return {term for term in rules()["own_terms"] if _has(text, term) and not _has(explained, term)}


def _has(text: str, term: str) -> bool:
    return re.search(rf"\b{re.escape(term)}s?\b", text) is not None
