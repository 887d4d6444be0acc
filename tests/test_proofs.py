"""The table of proofs: its programs and marks agree, and what counts as it should be; exit codes of proofs."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from harness.cli import _lockstep
from harness.cli._exits import Exit, of_proof
from harness.subject.program import Program
from tools.proving.models import models
from tools.proving.running import Found, as_expected
from tools.proving.table import section, summary

WRONG = Found("a@mirrored-2", "a mistake", "open")


ALL_RIGHT = {"optimizers", "real_models"}
"""Files whose programs are right unless a line of them is marked."""


def test_programs_can_be_loaded_and_say_whether_they_are_right() -> None:
    """Each is a function of its file; one has a guilty line and says what is wrong, or says that it is right."""
    for model in models():
        assert Program.of(model.program).name == f"{model.stem}.py:train_{model.function}"
        source = model.file.read_text().partition(f"def train_{model.function}(")[2]
        says = re.match(r'[^\n]*:\n    """(.*?)"""', source)
        if model.guilty:
            assert model.mistake, model.name
            assert not model.mistake.startswith("right:"), model.name
        else:
            assert model.stem in ALL_RIGHT or (says and says[1].startswith("Right")), model.name


@pytest.mark.parametrize(
    ("mistake", "status", "fine"),
    [
        ("a mistake", "proved", False),
        ("a mistake", "conditional", True),
        ("a mistake", "refuted", True),
        ("a mistake", "open", True),
        (None, "refuted", False),
        (None, "proved", True),
        (None, "open", True),
    ],
)
def test_nothing_wrong_is_proved_and_nothing_right_refuted(mistake: str | None, status: str, fine: bool) -> None:
    """Anything else may be."""
    assert as_expected(Found("a", mistake, status)) is fine


def test_the_table_has_totals_and_rows() -> None:
    """Of wrong programs and of right ones."""
    results = [WRONG, Found("b@mirrored-2", None, "proved", operations={"MatMul": 3, "Unheard": 1})]
    assert "| wrong programs | 1 | 0 | 0 | 0 | 1 |" in summary(results)
    page = section(results)
    assert "`Unheard` 1" in page
    assert "75.0 %" in page


@pytest.mark.parametrize(
    ("status", "strict", "code"),
    [
        ("proved", True, Exit.FINE),
        ("conditional", False, Exit.FINE),
        ("conditional", True, Exit.INCONSISTENT),
        ("refuted", False, Exit.INCONSISTENT),
        ("open", True, Exit.ABSTAINED),
    ],
)
def test_exit_codes(status: str, strict: bool, code: Exit) -> None:
    """As those of verify."""
    assert of_proof(status, strict=strict) is code


def test_usage_errors_come_before_anything_starts() -> None:
    """A program or a strategy that does not exist, and --strict without a proof."""
    for arguments, words in (
        (["prove", "nowhere.py:train"], "there is no file"),
        (["prove", f"{__file__}:nothing"], "defines no function"),
        (["verify", "nowhere.py:train", "--strict", "--no-prove"], "leave out --no-prove"),
    ):
        # By the program: a command that is called by itself keeps its own --help for good, which has no -h.
        result = CliRunner().invoke(_lockstep, arguments)
        assert result.exit_code == 2, result.output
        assert words in result.output
