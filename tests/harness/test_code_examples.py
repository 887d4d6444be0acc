"""The programs that `lockstep explain` shows: wrong ones are found under their codes, right ones are consistent.

What is said of each wrong one is in `golden/`, but for numbers that follow from rounding. `LOCKSTEP_GOLDEN=write` makes
it anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from harness import verify
from harness.cli.explain import explain
from harness.judging.diagnostics.codes import all_codes
from harness.judging.diagnostics.examples import all_examples
from harness.judging.diagnostics.text import text_of

_WITHOUT = (
    "corrupted_by_fault",  # a fault of the plan changes a number, and the program is right
    "data_overwritten",  # by chance; the known issue tf-generator-written-over has a program
    "shuffled_shard",  # a condition, unless something else is wrong as well
)
_NOT_FINITE = "local_overflow_decision"
"""Of its right program nothing can be judged at the step whose gradients overflow."""
_GOLDEN = Path(__file__).with_name("golden")
_ROUNDED = re.compile(r"(?m)^( *\d+ \| .*)$|-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+|\d{5,}")
"""Lines of source, and numbers that another processor may round otherwise, or count in units in the last place."""


def test_each_mistake_has_an_example_or_is_known_to_have_none() -> None:
    """Each new rule, cause or relation needs one."""
    mistakes = {code.name for code in all_codes().values() if code.kind in ("rule", "cause", "relation")}
    assert mistakes - {*all_examples()} == {*_WITHOUT}
    assert {*all_examples()} <= {*all_codes()}


@pytest.mark.parametrize("code", all_examples())
def test_wrong_and_right_differ_in_a_few_lines(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Both are Python, and are shown together."""
    example = all_examples()[code]
    for source in (example.wrong, example.right):
        compile(source, code, "exec")
    explain.main([code], standalone_mode=False)
    said = capsys.readouterr().out.splitlines()
    interrupted = "" if example.interrupt_at is None else f" with --interrupt-at {example.interrupt_at}"
    assert f"wrong under {example.strategy}{interrupted} (-), and right (+):" in said
    assert 1 <= sum(line.startswith("+ ") for line in said) <= 2


@pytest.mark.parametrize("kind", ["wrong", "right"])
@pytest.mark.parametrize("code", [pytest.param(each, marks=pytest.mark.full) for each in all_examples()])
def test_an_example_is_what_it_is_said_to_be(
    code: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong one under its code, or its cause's."""
    example = all_examples()[code]
    source = getattr(example, kind)
    (tmp_path / "train.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    program = "train.py:train" if "def train(" in source else ["python", "train.py"]
    at = example.interrupt_at
    verdict = verify(program, example.strategy, explain=kind == "wrong", prove=False, interrupt_at=at)
    if kind == "right":
        assert verdict.outcome == ("abstained" if code == _NOT_FINITE else "consistent"), str(verdict)
        return
    assert verdict.outcome == "inconsistent"
    why, diagnostic = verdict.explanation, verdict.to_json()["diagnostic"]
    assert code in (diagnostic["code"], None if why is None else why.cause), str(verdict)
    text = text_of(verdict).replace(str(tmp_path), "...")
    said = _ROUNDED.sub(lambda found: found[1] or "#", text) + "\n"
    golden = _GOLDEN / f"{code}.txt"
    if os.environ.get("LOCKSTEP_GOLDEN") == "write":
        golden.write_text(said)
    words, known = ([each for each in text.split() if each != "|"] for text in (said, golden.read_text()))
    assert words == known  # lines end where the path of this run has them end


def test_what_is_said_is_of_an_example() -> None:
    """None is left of a code that has gone."""
    assert {file.stem for file in _GOLDEN.iterdir()} == {*all_examples()}
