"""The probes: what is tried, in which order, what is counted, and one part in earnest."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tools import probes as tool
from tools.probing import running
from tools.probing.inventory import Inventory, inventory_of
from tools.probing.kinds import KINDS
from tools.probing.running import Finding, Outcome, Probe, Probed, probes, result_of
from tools.probing.table import coverage, findings, formless
from tools.probing.training import CIRCUMSTANCES

LAYERS = Inventory(("Add", "Dense", "Masking"), tuple(sorted(["Add", *(f"Dense:{number}" for number in range(19))])))
OTHERS = Inventory((), ("other",))
INVENTORIES = {"keras": {name: LAYERS if name == "layers" else OTHERS for name in KINDS}}


def test_a_seed_draws_the_order_and_nothing_else() -> None:
    """Each form is in each circumstance under each strategy, once."""
    first, again, other = (probes(INVENTORIES, ["mirrored-2", "mirrored-3"], seed) for seed in (0, 0, 1))
    assert first == again != other
    assert sorted(probe.name for probe in first) == sorted(probe.name for probe in other)
    for circumstance in KINDS["layers"].circumstances:
        here = [each for each in first if (each.kind, each.circumstance) == ("layers", circumstance)]
        tried = sorted(form for each in here if each.strategy == "mirrored-3" for form in each.forms)
        assert tried == sorted(LAYERS.forms)


def test_each_circumstance_is_explained() -> None:
    """And each that is explained is tried."""
    assert {circumstance for kind in KINDS.values() for circumstance in kind.circumstances} == set(CIRCUMSTANCES)


def test_what_was_not_run_is_told() -> None:
    """Forms that were tried of those that there are, and what came of them; open findings first."""
    every = [probe for probe in probes(INVENTORIES, ["mirrored-2", "mirrored-3"], 0) if probe.kind == "layers"]
    chosen = [probe for probe in every if probe.circumstance == "even"]
    done = next(probe for probe in chosen if probe.strategy == "mirrored-2" and len(probe.forms) == 16)
    of = (Finding("Dense:3", "known", "keras3-x"), Finding("Add", "wrong", "error: it differs\nmore"))
    results = [Probed(done.name, done.forms, of, 1.0)]
    assert coverage(chosen, results).splitlines()[-1] == (
        "| layers | keras | even | 16 of 20, 1 known, 1 wrong | not run |"
    )
    assert list(findings(results)) == [
        "- layers/keras/mirrored-2/even, `Add`: wrong, error: it differs",
        "- known, 1 times: keras3-x",
    ]
    assert list(formless(INVENTORIES)) == ["- keras: `Masking`"]


def test_a_budget_that_is_spent_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table says so, and nothing was found to be wrong."""
    monkeypatch.setattr(tool, "inventory_of", lambda package: INVENTORIES["keras"])
    done = CliRunner().invoke(tool.main, ["--budget", "0s", "--strategy", "mirrored-2", "--package", "keras"])
    assert done.exit_code == 0, done.output
    assert "| layers | keras | even | not run |" in done.output
    assert CliRunner().invoke(tool.main, ["--only", "nothing"]).exit_code == 2


def test_wrong_forms_are_found_by_parts_and_known_ones_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wrong one by itself; of those that meet one defect, which is seen, none is tried again."""
    tried: list[tuple[str, ...]] = []

    def verified(probe: Probe, forms: tuple[str, ...]) -> tuple[Outcome, str]:
        tried.append(forms)
        if probe.kind == "optimizers":
            return "known", "keras3-clip-before-reduction"
        return ("wrong", "it differs") if {"Dense:3", "Dense:7"} & {*forms} else ("consistent", "")

    monkeypatch.setattr(running, "_verified", verified)
    forms = tuple(f"Dense:{number}" for number in range(9))
    found = result_of(Probe("layers", "keras", "mirrored-2", "even", forms)).findings
    assert [each.form for each in found] == ["Dense:3", "Dense:7"]
    assert all(each.is_open for each in found)
    tried.clear()
    clipped = ("Adam:clipnorm", "SGD:clipvalue")
    found = result_of(Probe("optimizers", "keras", "mirrored-2", "even", clipped)).findings
    assert [(each.form, each.is_open) for each in found] == [("Adam:clipnorm", False), ("SGD:clipvalue", False)]
    assert tried == [clipped]
    found = result_of(Probe("optimizers", "keras", "mirrored-2", "even", ("SGD", "SGD:clipvalue"))).findings
    assert len(tried) == 4  # one of both does not meet it


@pytest.mark.full
@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_forms_are_of_classes_that_there_are(package: str) -> None:
    """A form names a class by its beginning; few classes have none."""
    found = inventory_of(package)
    for name in ("layers", "augmentations", "losses", "metrics"):
        made = {form.partition(":")[0] for form in found[name].forms}
        assert made <= set(found[name].classes) | {"RNN", "StackedRNNCells"}, name
    assert sum(len(line.split(", ")) for line in formless({package: found})) <= 16


@pytest.mark.full
def test_the_wrong_form_of_a_part_is_found() -> None:
    """Here the one that its documentation makes a mean of means; the others are consistent beside it."""
    forms = ("Add", "Dense", "Dense:activity", "Softmax")
    found = result_of(Probe("layers", "tf_keras", "mirrored-2", "uneven", forms))
    assert [(each.form, each.outcome) for each in found.findings] == [("Dense:activity", "documented")]
