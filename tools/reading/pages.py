"""Takes a page apart: paragraphs, items, cells and headings, as the text that somebody reads.

Code blocks are no prose. Neither is a generated region, from `<!-- NAME:begin -->` to `<!-- NAME:end -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

# Stands for a code span in the text of a block: one word, of which no rule knows.
CODE = "`code`"
_PARSER = MarkdownIt("commonmark").enable("table")
_ABBREVIATIONS = r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)"
_END_OF_SENTENCE = re.compile(rf"{_ABBREVIATIONS}(?<=[.!?])[)\"”]?\s+(?=[\"“(]?[A-Z`0-9])")


@dataclass(frozen=True)
class Block:
    """A paragraph, item, cell, heading or code block; `line` is where it begins, from 1."""

    kind: str
    text: str
    words: int
    line: int
    explained: tuple[str, ...] = ()
    """Its pieces in bold, in italics or in a link, or its heading, in lower case: the terms that it explains."""


def blocks(page: str) -> Iterator[Block]:
    """Every block outside of generated regions, in order; of a code block only that it is there."""
    kinds: list[str] = []
    generated, line = False, 1
    for token in _PARSER.parse(page):
        line = token.map[0] + 1 if token.map else line
        if token.type == "html_block":
            marks = re.findall(r"<!-- [\w-]+:(begin|end)\b", token.content)
            generated = marks[-1] == "begin" if marks else generated
        elif generated:
            continue
        elif token.nesting == 1:
            kinds.append(token.type.removesuffix("_open"))
        elif token.nesting == -1:
            kinds.pop()
        elif token.type in ("fence", "code_block"):
            yield Block("code", "", 0, line)
        elif token.type == "inline":
            yield _block(_kind(kinds), token.children or [], line)


def _kind(kinds: Sequence[str]) -> str:
    """What the innermost text stands in."""
    if kinds[-1] == "paragraph":
        return "item" if "list_item" in kinds else "paragraph"
    return "cell" if kinds[-1] in ("th", "td") else kinds[-1]


def _block(kind: str, children: Sequence[Token], line: int) -> Block:
    text, words = "", 0
    explained: list[str] = []
    marked: list[str] = []  # the text of each piece that has begun and not ended
    for child in children:
        piece = {"softbreak": " ", "hardbreak": " ", "code_inline": CODE, "text": child.content}.get(child.type, "")
        text += piece
        words += word_count(child.content) if child.type in ("text", "code_inline") else 0
        marked = [before + piece for before in marked]
        if child.type in ("strong_open", "em_open", "link_open"):
            marked.append("")
        elif child.type in ("strong_close", "em_close", "link_close"):
            explained.append(marked.pop())
    if kind == "heading":
        explained.append(text)
    return Block(kind, text.strip(), words, line, tuple(each.lower() for each in explained))


def word_count(text: str) -> int:
    """Pieces between blanks with a letter or a digit."""
    return sum(bool(re.search(r"\w", piece)) for piece in text.split())


def sentences(text: str) -> list[str]:
    """The sentences of a block; one that ends with a colon before a list or an example ends there."""
    return [sentence for sentence in _END_OF_SENTENCE.split(text) if word_count(sentence)]
