"""Test modules that lie in a source checkout beside the installed package of the same name.

What the installed package has is imported from there; the test file, and helpers that no wheel has, from the checkout.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from harness.tf_tests.inside.state import STATE, TestFile


def find(path: Path) -> tuple[TestFile, dict[str, str]]:
    """The name under which this file is imported, and the folders of its packages, by name.

    A folder without an `__init__.py`, as `tf_keras/integration_test` and `tensorflow/dtensor` are, has no name in which
    its package comes, and neither has what lies below it; the outermost package above it is the file's all the same.
    """
    names, folder = _packages(path.parent)
    file = TestFile(".".join([*names, path.stem]), str(path))
    if above := [each for each in folder.parents if _is_package(each)]:
        names, folder = _packages(above[-1])
    packages = {".".join(names[: depth + 1]): str(folder.joinpath(*names[: depth + 1])) for depth in range(len(names))}
    return file, packages


def installed_first() -> list[str]:
    """The path, with what is installed before any checkout."""
    return sorted(sys.path, key=lambda entry: Path(entry).name not in ("site-packages", "dist-packages"))


def _packages(folder: Path) -> tuple[list[str], Path]:
    """The names of this package and of those that hold it, from the outermost one, and the folder that holds all."""
    names: list[str] = []
    while _is_package(folder):
        names.insert(0, folder.name)
        folder = folder.parent
    return names, folder


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").exists()


def beside_installed(packages: dict[str, str]) -> bool:
    """Whether the outermost package is another one than this folder where it is imported."""
    for name, folder in packages.items():
        module = sys.modules.get(name) or _importable(name)
        return module is not None and folder not in [str(each) for each in getattr(module, "__path__", [])]
    return False


def _importable(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class _Checkout(importlib.abc.MetaPathFinder):
    """The test file itself comes from the checkout, even if the installed package has one of its name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = STATE.file
        if file is not None and fullname == file.name and STATE.packages:
            return importlib.util.spec_from_file_location(fullname, file.path)
        return None


class _Helpers(importlib.abc.MetaPathFinder):
    """After all other finders: what is in no wheel, but in the checkout."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parent, _, name = fullname.rpartition(".")
        top = fullname.partition(".")[0]
        root = STATE.packages.get(top)
        if not parent or root is None:
            return None
        below = parent.split(".")[1:]
        if STATE.legacy_keras and below[:1] == ["src"]:
            # There the sources are what the wheel calls so, and their modules ask for each other by that name.
            below = below[1:]
        folder = Path(root, *below)
        if (package := folder / name / "__init__.py").exists():
            return importlib.util.spec_from_file_location(
                fullname, package, submodule_search_locations=[str(folder / name)]
            )
        if (folder / name).is_dir():
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(folder / name)]
            return spec
        file = folder / f"{name}.py"
        return importlib.util.spec_from_file_location(fullname, file) if file.exists() else None


_CHECKOUT, _HELPERS = _Checkout(), _Helpers()


def install() -> None:
    """Have the one look before all other finders, and the other one after them."""
    sys.meta_path[:] = [_CHECKOUT, *(each for each in sys.meta_path if each not in (_CHECKOUT, _HELPERS)), _HELPERS]


def load(file: TestFile) -> ModuleType:
    """The test module, imported at most once."""
    if file.name in sys.modules:
        return sys.modules[file.name]
    names = file.name.split(".")
    if not STATE.packages or (len(names) > 1 and names[0] not in STATE.packages):
        folder = str(Path(file.path).parents[len(names) - 1])
        if folder not in sys.path:
            sys.path.insert(0, folder)
    module = importlib.import_module(file.name)
    # Functions arrive as the file's process has them, where pytest has rewritten their assertions; these are the names
    # that such an assertion uses.
    module.__dict__.setdefault("@pytest_ar", importlib.import_module("_pytest.assertion.rewrite"))
    module.__dict__.setdefault("@py_builtins", importlib.import_module("builtins"))
    return module
