"""What the packages export: every promised name exists, and every `__all__` is sorted and true."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import _lockstep
import harness
import simulator

ROOT = Path(__file__).parent.parent
# The public contract; other names may come and go, these may not.
PROMISED = {
    "simulator": {"Cluster", "FaultPlan", "Link", "Topology", "step"},
    "simulator.capabilities": {"Capabilities", "probe"},
    "harness": {"Verdict", "verify"},
}


def _modules() -> list[str]:
    names = []
    for package in (_lockstep, simulator, harness):
        names.append(package.__name__)
        names += [info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    # Private modules promise nothing, and some of them do their work when they are imported.
    return [name for name in names if not name.rpartition(".")[2].startswith("_")]


def _order(name: str) -> tuple[int, str]:
    """Sort as ruff's RUF022 does: constants of more than one letter, then classes, then the rest."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2, name)


def _names(module: ModuleType) -> set[str]:
    """The public names of a module, besides those of modules that it has imported."""
    found = {name for name, value in vars(module).items() if not isinstance(value, ModuleType)}
    return {name for name in found - {"annotations"} if not name.startswith("_")}


def _wrong(name: str) -> list[str]:
    """What is wrong with the `__all__` of a module."""
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", None)
    if exported is None:
        return [f"{name} has no __all__"] if hasattr(module, "__path__") and _names(module) else []
    wrong = [f"{name} exports {each}, which it has not" for each in exported if not hasattr(module, each)]
    if list(exported) != sorted(set(exported), key=_order):
        wrong.append(f"{name}: __all__ is not sorted, or names something twice")
    return wrong


def test_all_is_sorted_and_resolves() -> None:
    """Every package that has names lists them; each list is sorted, has no duplicates, and its names can be had."""
    names = _modules()
    assert len(names) > 150
    assert [problem for name in names for problem in _wrong(name)] == []


def test_a_wrong_list_of_exports_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check sees a missing list, a name that does not exist, a duplicate and a wrong order."""
    for exported, count in ((["Cluster", "absent"], 1), (["step", "Cluster"], 1), (["step", "step"], 1), (["step"], 0)):
        monkeypatch.setattr(simulator, "__all__", exported)
        assert len(_wrong("simulator")) == count, exported
    monkeypatch.delattr(simulator, "__all__")
    assert _wrong("simulator") == ["simulator has no __all__"]


@pytest.mark.parametrize(("package", "names"), PROMISED.items(), ids=PROMISED)
def test_promised_names_are_exported(package: str, names: set[str]) -> None:
    """The names of the public contract are in the package's `__all__`."""
    assert names <= set(importlib.import_module(package).__all__)


def test_the_command_has_its_entry_point() -> None:
    """`lockstep` and the pytest plugin are where pyproject.toml says."""
    assert callable(importlib.import_module("harness.cli").main)
    assert callable(importlib.import_module("_lockstep.command").main)
    plugins = [importlib.import_module(name) for name in ("harness.plugin", "_lockstep.plugin")]
    assert {name: getattr(plugins[0], name) for name in plugins[1].__all__} == {
        name: getattr(plugins[1], name) for name in plugins[1].__all__
    }


def test_the_package_shows_the_function_and_not_its_module() -> None:
    """`harness.verify` is both; whoever imports first, `from harness import verify` is the function."""
    for first in ("import harness.verify", "from harness.verify import judge", "from harness import verify"):
        code = f"{first}; from harness import verify; import harness; assert callable(harness.verify)"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
