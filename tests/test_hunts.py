"""The hunts: that weak trainings have a guilty line, what is counted, and one hunt in earnest."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tools import hunts
from tools.hunting.running import Hunted, guilty, huntings, result_of
from tools.hunting.table import section


def test_weak_trainings_have_a_guilty_line_and_strong_ones_none() -> None:
    """There are at least 24 of the former and 8 of the latter, and each says what it is."""
    kinds = {"weak": 0, "strong": 0}
    for hunting in huntings("*", 1, ("situations",)):
        kind = hunting.function.partition("_")[0]
        kinds[kind] += 1
        assert bool(guilty(hunting.file, hunting.function)) == (kind == "weak"), hunting.name
    assert kinds["weak"] >= 24
    assert kinds["strong"] >= 8


def test_medians_are_over_seeds_and_what_was_not_found_counts_as_more() -> None:
    """A training that one seed of three has not found has the median of the others; one that none has, no number."""
    name = "alone:weak_weights_first"
    found = [Hunted(f"{name}@situations/{seed}", plan, plan or 60, 1.0) for seed, plan in enumerate((2, 4, None))]
    never = [Hunted(f"{name}@swarm/{seed}", None, 60, 1.0) for seed in range(3)]
    text = section([*found, *never])
    row = "| weights first | `for name in (first, second):` | 4 (1 of 3 not) | > 60 (3 of 3 not) |"
    assert row in text
    assert "`situations`: 3 hunts of 1 weak trainings, median 4 plans until found, the most 4 (1 of 3 not)" in text


def test_results_are_kept_and_not_made_twice(tmp_path: Path) -> None:
    """What the file has is not run again; a strong training that was accused is an exit code of 1."""
    file = tmp_path / "hunts.json"
    for found, code in ((None, 0), (3, 1)):
        file.write_bytes(msgspec.json.encode([Hunted("alone:strong_backup@situations/0", found, 3, 1.0)]))
        arguments = ["--only", "strong_backup", "--profile", "situations", "--seeds", "1", "--json", str(file)]
        assert CliRunner().invoke(hunts.main, arguments).exit_code == code


@pytest.mark.full
def test_a_weakness_between_two_files_is_found_by_few_plans() -> None:
    """In earnest; the training that writes both at once survives as many."""
    weak, strong = (
        result_of(huntings(name, 1, ("situations",))[0], 6) for name in ("weak_position_first", "strong_whole_file")
    )
    assert weak.found is not None
    assert strong.found is None
