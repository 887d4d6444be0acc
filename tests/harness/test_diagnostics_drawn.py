"""Diagnostics of whatever a program, its output or its file names may hold: text and forms are always whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judging.diagnostics import Diagnostic, Label, diagnostic_text
from harness.judging.diagnostics.formats import all_formats
from harness.judging.diagnostics.formats.protocol import ReportedVerdict

_TEXT = st.text(max_size=60) | st.text("ab ()=.日é\t\x00\x1b\n\ufffe", max_size=200)


@st.composite
def _labels(draw: Any) -> Label:
    source = draw(_TEXT)
    begin = draw(st.integers(0, len(source)))
    end = draw(st.integers(begin, len(source)))
    return Label(draw(st.sampled_from(["train.py", "/a/b/日.py"])), draw(st.integers(1, 10**6)), source, begin, end, "")


def _several(drawn: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(drawn, max_size=3).map(tuple)


_DIAGNOSTICS = st.builds(
    Diagnostic,
    st.sampled_from(["error", "warning"]),
    st.just("code"),
    _TEXT,
    _TEXT,
    _TEXT,
    label=st.none() | _labels(),
    others=_several(_labels()),
    facts=_several(_TEXT),
    notes=_several(_TEXT),
    help=_TEXT,
)
_READ: dict[str, Callable[[str], object]] = {
    "github": str.splitlines,
    "gitlab": json.loads,
    "junit": ET.fromstring,
    "sarif": json.loads,
}


@given(_DIAGNOSTICS, st.integers(16, 130))
def test_a_text_is_made_of_anything_in_any_width(found: Diagnostic, width: int) -> None:
    """Of a source as wide as the terminal, of one in wide letters, of no words at all."""
    assert diagnostic_text(found, width).startswith(f"{found.severity}[code]")


@pytest.mark.parametrize("form", sorted(_READ))
@given(reported=st.lists(st.builds(ReportedVerdict, _TEXT, _TEXT, _TEXT, st.floats(0, 1e5), st.none() | _DIAGNOSTICS)))
def test_a_form_of_anything_can_be_read(form: str, reported: list[ReportedVerdict]) -> None:
    """Also with what a terminal is told in colours, and with characters that XML cannot have."""
    _READ[form](all_formats()[form].written(reported))


def test_each_form_is_read() -> None:
    """A new one says here how."""
    assert set(_READ) == set(all_formats())
