"""A diagnostic as compilers show it: the sentence, the line with what is meant underlined, the numbers, the cure."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Iterator

from harness.judging.diagnostics.details import heading, resolved
from harness.judging.diagnostics.from_verdict import diagnostic_of
from harness.judging.diagnostics.protocol import Diagnostic, Label
from harness.judging.facts import WIDTH, Facts

Paint = Callable[[str, str], str]
"""Makes a text of a style: `error`, `warning`, `place`, `mark`, `aside`, `help`."""


def text_of(verdict: Facts, width: int = WIDTH, paint: Paint | None = None) -> str:
    """What a verdict says to who reads it first, in lines of `width` characters, but for those of the source."""
    if (found := diagnostic_of(verdict)) is None:
        return "\n".join((*heading(verdict, width), *resolved(verdict, width)))
    return diagnostic_text(found, width, paint)


def diagnostic_text(found: Diagnostic, width: int = WIDTH, paint: Paint | None = None) -> str:
    """A diagnostic in such lines."""
    return "\n".join(_lines(found, width, paint or _plain))


def _plain(style: str, text: str) -> str:
    return text


def _lines(found: Diagnostic, width: int, paint: Paint) -> Iterator[str]:
    head, *rest = textwrap.wrap(found.head, width, subsequent_indent="    ", break_long_words=False)
    sign, _, title = head.partition(":")
    yield f"{paint(found.severity, sign)}:{title}"
    yield from rest
    labels = [each for each in (found.label, *found.others) if each is not None]
    gutter = len(str(max((each.line for each in labels), default=0)))
    yield f"{' ' * gutter}{paint('place', '-->')} {found.where}"
    for label in sorted(labels, key=lambda each: (each.file != labels[0].file, each.file, each.line)):
        if found.label is not None and label.file != found.label.file:
            yield f"{' ' * gutter}{paint('place', '::>')} {label.where}"
        yield from _shown(label, gutter, width, paint, first=label is found.label)
    for fact in found.facts:
        yield from wrapped(f"{' ' * gutter} = ", fact, width, paint, "aside")
    for note in found.notes:
        yield from wrapped(f"{' ' * gutter} = note: ", note, width, paint, "aside")
    if found.help:
        yield from wrapped("help: ", found.help, width, paint, "help")


def _shown(label: Label, gutter: int, width: int, paint: Paint, *, first: bool) -> Iterator[str]:
    """The line of source, and below it what is meant and what is said of that, in as few lines as can be."""
    bar = f"{' ' * gutter} {paint('place', '|')}"
    shown, begin, end = _window(label, width - gutter - 3)
    yield f"{paint('place', f'{label.line:>{gutter}} |')} {shown}"
    before, marks = _cells(shown[:begin]), ("^" if first else "-") * max(1, _cells(shown[begin:end]))
    below = _wrapped(label.text, width - gutter - 4)
    room = width - gutter - 4 - before - len(marks)
    if label.text and room >= min(len(label.text), _BESIDE_MIN):
        beside = _wrapped(label.text, room) or [""]
        if len(beside) <= 1 + len(below):
            yield f"{bar} {' ' * before}{paint('mark' if first else 'place', marks)} {beside[0]}".rstrip()
            yield from (f"{bar} {' ' * (before + len(marks))} {line}" for line in beside[1:])
            return
    yield f"{bar} {' ' * before}{paint('mark' if first else 'place', marks)}"
    yield from (f"{bar} {line}" for line in below)


def _wrapped(text: str, width: int) -> list[str]:
    """The text in lines, with words such as paths in one piece."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _window(label: Label, width: int) -> tuple[str, int, int]:
    """As much of the source as fits, without what it is indented by, and where in that the expression is."""
    source = label.source.expandtabs(1)
    spare = len(source) - len(source.lstrip())
    text, begin, end = source[spare:], label.begin - spare, label.end - spare
    if _cells(text) <= width:
        return text, begin, end
    first = max(0, min(begin - 8, len(text) - width))
    before = _CUT if first else ""
    text = before + text[first + len(before) : first + width - len(_CUT)]
    return f"{text}{_CUT}", begin - first, min(end - first, len(text))


def _cells(text: str) -> int:
    """How many columns of a terminal it takes."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


_CUT = "…"
_BESIDE_MIN = 36
"""What is said stands beside the marks if there is so much room."""


def wrapped(label: str, text: str, width: int, paint: Paint = _plain, style: str = "") -> Iterator[str]:
    """Lines of `width` characters, the first of which begins with a label."""
    indent = " " * len(label)
    lines = textwrap.wrap(label + text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    yield paint(style, label) + lines[0][len(label) :]
    yield from lines[1:]
