"""The probes: what is tried, in which order, what is counted, and one part in earnest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from tools import probes as tool
from tools.probing import running
from tools.probing.drawn import draw_forms, is_drawn, named_form
from tools.probing.inventory import Inventory, inventory_of
from tools.probing.kinds import KINDS
from tools.probing.kinds.protocol import Keras, Kind, Row, forms_of
from tools.probing.running import Finding, Probe, Probed, Shown, probes, result_of
from tools.probing.table import coverage, findings, formless, refused
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


def test_what_cannot_apply_is_not_tried() -> None:
    """XLA has no collectives between processes, and no strings; the table says which is no matter of a budget."""
    forms = ("Dense", "StringLookup", "TextVectorization:vocabulary=None")
    inventories = {"keras": {"layers": Inventory(forms, forms)}}
    every = probes(inventories, ["mirrored-2", "multi_worker-2"], 0)
    compiled = [probe for probe in every if probe.circumstance == "compiled"]
    assert [(probe.strategy, probe.forms) for probe in compiled] == [("mirrored-2", ("Dense",))]
    assert "| layers | keras | compiled | not run | does not apply |" in coverage(every, []).splitlines()


class _Pooling:
    """A class of no Keras, which refuses one combination when it is made, and another one when it is called."""

    def __init__(self, size: int, strides: int = 1, padding: str = "valid", **more: Any) -> None:
        if padding == "causal":
            raise ValueError(padding)
        self.told = {"size": size, "strides": strides, "padding": padding, **more}


class _Work:
    inputs: Collection[str] = ("vector",)

    def __init__(self, keras: Keras, forms: Mapping[str, Any], rows: int) -> None:
        self.made = {name: form.make(keras) for name, form in forms.items()}

    def compute(self, batch: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
        assert batch["vector"].shape == (1, 8)
        if any(each.told["strides"] == 2 and each.told["padding"] == "same" for each in self.made.values()):
            raise TypeError("strides")
        return {}, None

    def update(self, gradients: Any) -> None:
        assert gradients is None

    def variables(self) -> Mapping[str, Any]:
        return {}

    def results(self) -> Mapping[str, Any]:
        return {}


_TWO_FORMS: list[Row] = [("Pooling", "vector", (3,), {}), ("Pooling:large", "vector", (5,), {})]
_POOLING = Kind(
    module="layers",
    bases=frozenset(),
    forms=lambda keras: forms_of(keras, "layers", _TWO_FORMS),
    circumstances=("even",),
    work=_Work,
)
_KERAS = SimpleNamespace(layers=SimpleNamespace(Pooling=_Pooling))


def test_a_seed_draws_arguments_and_a_name_tells_them() -> None:
    """What the class refuses is counted; a form is made again from its name alone."""
    drawn, again = draw_forms(_KERAS, _POOLING, 6, 0), draw_forms(_KERAS, _POOLING, 6, 0)
    assert drawn == again
    assert drawn.refused > 0
    assert 1 < len(drawn.names) <= 6
    assert all(map(is_drawn, drawn.names))
    for name in drawn.names:
        assert "causal" not in name
        told = named_form(_POOLING.forms(_KERAS), name).make(_KERAS).told
        given = dict(each.split("=") for each in name.partition(":")[2].split(","))
        assert told["size"] == 3
        assert given.items() <= {key: str(value) for key, value in told.items()}.items()
    assert draw_forms(_KERAS, _POOLING, 0, 0) == ((), 0)


def test_a_form_by_hand_is_itself() -> None:
    """A part of what they have in common is their class."""
    forms = _POOLING.forms(_KERAS)
    assert named_form(forms, "Pooling:large").make(_KERAS).told["size"] == 5
    assert not is_drawn("Pooling:large")


def test_drawn_forms_have_parts_and_a_row_of_their_own() -> None:
    """So that probes of forms by hand are the same whatever is drawn."""
    forms = ("Dense", "Dense:units=3", "Masking:mask_value=0.0")
    inventories = {"keras": {"layers": Inventory(forms, forms, refused=7)}}
    even = [probe for probe in probes(inventories, ["mirrored-2"], 0) if probe.circumstance == "even"]
    assert sorted(probe.forms for probe in even) == [("Dense",), ("Dense:units=3", "Masking:mask_value=0.0")]
    table = coverage(even, [Probed(each.name, each.forms, (), 1.0) for each in even]).splitlines()
    assert table[-2:] == ["| layers | keras | even | 1 |", "| layers, drawn | keras | even | 2 |"]
    assert list(refused(inventories)) == [
        "- 7 combinations of drawn arguments are refused on one device, and are not tried."
    ]


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
        "- known: keras3-x",
    ]
    assert list(formless(INVENTORIES)) == ["- keras: `Masking`"]


def test_a_budget_that_is_spent_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table says so, and nothing was found to be wrong."""
    monkeypatch.setattr(tool, "inventory_of", lambda package, drawn, seed: INVENTORIES["keras"])
    done = CliRunner().invoke(tool.main, ["--budget", "0s", "--strategy", "mirrored-2", "--package", "keras"])
    assert done.exit_code == 0, done.output
    assert "| layers | keras | even | not run |" in done.output
    assert CliRunner().invoke(tool.main, ["--only", "nothing"]).exit_code == 2


def test_results_of_parts_that_are_the_same_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that has other forms today is tried again."""
    monkeypatch.setattr(tool, "inventory_of", lambda package, drawn, seed: INVENTORIES["keras"])
    every = probes(INVENTORIES, ["mirrored-2"], 0)
    losses = next(each for each in every if (each.kind, each.circumstance) == ("losses", "half"))
    metrics = next(each for each in every if (each.kind, each.circumstance) == ("metrics", "eager"))
    done = [Probed(losses.name, losses.forms, (), 1.0), Probed(metrics.name, ("other", "gone"), (), 1.0)]
    file = tmp_path / "probes.json"
    file.write_bytes(msgspec.json.encode(done))
    options = ["--budget", "0s", "--strategy", "mirrored-2", "--package", "keras", "--json", str(file)]
    told = CliRunner().invoke(tool.main, options).output
    assert "| losses | keras | half | 1 |" in told
    assert "| metrics | keras | eager | not run |" in told


def test_wrong_forms_are_found_by_parts_and_known_ones_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wrong one by itself; of those that meet one defect, which is seen, none is tried again."""
    tried: list[tuple[str, ...]] = []

    def verified(probe: Probe, forms: tuple[str, ...]) -> Shown:
        tried.append(forms)
        if probe.kind == "optimizers":
            clipped = tuple(form for form in forms if "clip" in form)
            return Shown("known", "keras3-clip-before-reduction", clipped if clipped == forms else ())
        return Shown("wrong", "it differs") if {"Dense:3", "Dense:7"} & {*forms} else Shown("consistent")

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
    assert sum(line.count("`") // 2 for line in formless({package: found})) <= 3


@pytest.mark.full
def test_the_wrong_form_of_a_part_is_found() -> None:
    """Here the one that its documentation makes a mean of means; the others are consistent beside it."""
    forms = ("Add", "Dense", "Dense:activity", "Softmax")
    found = result_of(Probe("layers", "tf_keras", "mirrored-2", "uneven", forms))
    assert [(each.form, each.outcome) for each in found.findings] == [("Dense:activity", "documented")]


@pytest.mark.full
def test_what_bfloat16_rounds_is_told_of_its_form() -> None:
    """Others beside it are consistent, and no form is tried by itself to know which it is."""
    forms = ("MeanAbsolutePercentageError:sum", "SquaredHinge:sum")
    (found,) = result_of(Probe("losses", "tf_keras", "mirrored-2", "half", forms)).findings
    assert (found.form, found.outcome, found.is_open) == ("SquaredHinge:sum", "coarse", False)
