"""Programs that train with other people's packages: each declares what it needs and what is known to come of it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tools import wild as tool
from tools.wilding.declared import Case, Wild, declared, programs
from tools.wilding.environments import PLACE, is_ready, python_of
from tools.wilding.running import Result, verified

LINES_MAX = 60
CASES = [
    pytest.param(wild, case, id=f"{wild.name}-{case.function}-{case.strategy}")
    for wild in programs()
    for case in wild.cases
]


def test_there_are_programs_of_many_packages() -> None:
    """At least eight, each under mirrored-2, and those of which some run with several workers too."""
    found = programs()
    assert len(found) >= 8
    assert all("mirrored-2" in {case.strategy for case in wild.cases} for wild in found)
    assert sum("multi_worker-2" in {case.strategy for case in wild.cases} for wild in found) >= 8


@pytest.mark.parametrize("wild", programs(), ids=lambda wild: wild.name)
def test_a_program_is_short_and_pins_its_package(wild: Wild) -> None:
    """At most 60 lines; what it is about has one version; a case names a function that is there."""
    text = wild.file.read_text()
    assert len(text.splitlines()) <= LINES_MAX
    assert any("==" in requirement and requirement.startswith(wild.name) for requirement in wild.requirements)
    assert all(f"def {case.function}(strategy, record" in text for case in wild.cases)
    assert all(case.because for case in wild.cases if case.outcome != "consistent")


@pytest.mark.parametrize(
    "text",
    [
        "import keras\n",
        "# /// script\n# dependencies = []\n# ///\n",
        '# /// script\n# [tool.lockstep]\n# case = "a"\n# ///\n',
    ],
)
def test_a_declaration_that_says_too_little_is_refused(text: str, tmp_path: Path) -> None:
    """No block, no cases, and a key that nobody reads."""
    file = tmp_path / "train-it.py"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"train-it\.py"):
        declared(file)


def test_an_environment_is_ready_only_for_what_it_was_made_for(tmp_path: Path) -> None:
    """Another version, and a broken making, count as none."""
    wild = programs()[0]
    assert not is_ready(wild, tmp_path)
    home = python_of(wild, tmp_path).parents[1]
    home.mkdir(parents=True)
    (home / ".complete").write_text("another version")
    assert not is_ready(wild, tmp_path)


def test_a_result_that_is_not_as_declared_is_found() -> None:
    """Another outcome, or another reason."""
    case = Case("train", "mirrored-2", "inconsistent", "regularizer_times_replicas")
    wrong = {"consistent": False, "explanation": {"rule": "regularizer_times_replicas"}}
    assert Result(case, wrong, 1.0).as_declared
    assert not Result(case, {**wrong, "explanation": None}, 1.0).as_declared
    assert not Result(case, {"consistent": True}, 1.0).as_declared
    assert Result(case, {**wrong, "abstained": "why"}, 1.0).outcome == "abstained"
    assert Result(case, {**wrong, "error": "why"}, 1.0).outcome == "failed"


def test_the_page_has_what_was_measured() -> None:
    """docs/wild.md shows what was kept of runs; all of it is as the programs declare, and of eight packages or more."""
    rows = msgspec.json.decode(tool._KEPT.read_bytes(), type=list[tool.Row])
    assert tool.region(rows, programs()) in tool.PAGE.read_text()
    cases = {(wild.file.name, case.function, case.strategy): case for wild in programs() for case in wild.cases}
    assert all(cases[row.file, row.function, row.strategy].outcome == row.outcome for row in rows)
    assert len({row.file for row in rows if row.strategy == "mirrored-2"}) >= 8


@pytest.mark.full
@pytest.mark.parametrize(("wild", "case"), CASES)
def test_a_program_comes_to_what_it_declares(wild: Wild, case: Case) -> None:
    """Verified in its environment, where that has been made by `python tools/wild.py --only-environments`."""
    if not is_ready(wild):
        pytest.skip(f"no environment with {' '.join(wild.requirements)} in {PLACE}; python tools/wild.py makes it")
    result = verified(wild, case)
    assert result.as_declared, json.dumps(result.verdict, indent=1)
