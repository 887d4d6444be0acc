"""Whose package `simulator` or `harness` is in this process, whatever the path finds first."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

# Where Lockstep lies: a checkout, or the folder of installed packages. Its packages are this one's siblings.
HOME = Path(__file__).resolve().parents[1]
PACKAGES = ("simulator", "harness")


class NameTaken(ImportError):
    """Raised when Lockstep needs a name that another package has in this process."""

    def __init__(self, name: str, where: str) -> None:
        super().__init__(
            f"{name!r} is {where} in this process, and Lockstep has a package of that name: one process can have only "
            "one of them. Use Lockstep in a process that does not import the other, such as `lockstep verify "
            "FILE.py:FUNCTION` or a pytest session for those tests alone, or rename the other",
            name=name,
        )


class _Ours:
    """Before all other finders: a claimed name is Lockstep's package."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.names:
            return None
        return importlib.util.spec_from_file_location(fullname, HOME / fullname / "__init__.py")


class _Hint:
    """After all other finders: who looks for a part of the other package is told why it is not found."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = fullname.partition(".")[0]
        if top not in _ours.names or not (where := stranger(top)):
            return None
        raise ModuleNotFoundError(
            f"No module named {fullname!r} in Lockstep's package {top!r}, which in this process hides {where}. Rename "
            "the other, or import it in a process that does not use Lockstep",
            name=fullname,
        )


_ours = _Ours()
_hint = _Hint()


def claim(*names: str) -> None:
    """Have these names (all of `PACKAGES` if none is given) mean Lockstep's packages, in this process, from now on.

    Raises:
        NameTaken: another package of such a name has been imported already.
    """
    wanted = names or PACKAGES
    for name in wanted:
        if where := _stranger_loaded(name):
            raise NameTaken(name, where)
    _ours.names.update(wanted)
    for finder, place in ((_ours, 0), (_hint, len(sys.meta_path))):
        if finder not in sys.meta_path:
            sys.meta_path.insert(place, finder)


def claimed() -> tuple[str, ...]:
    """The names that mean Lockstep's packages here, and so must in the processes that this one starts."""
    return tuple(name for name in PACKAGES if name == "simulator" or name in _ours.names or loaded(name))


def loaded(name: str) -> bool:
    """Whether Lockstep's package of this name has been imported."""
    return name in sys.modules and not _stranger_loaded(name)


def stranger(name: str) -> str:
    """The package of this name that is not Lockstep's and is imported, or would be by the path; empty without one."""
    if where := _stranger_loaded(name):
        return where
    for finder in sys.meta_path:
        if finder not in (_ours, _hint) and (spec := finder.find_spec(name, None)) is not None:
            return _unless_ours(name, spec)
    return ""


def beside(name: str, folder: Path) -> str:
    """The package or module of this name that is not Lockstep's and lies in this folder; empty without one."""
    spec = PathFinder.find_spec(name, [str(folder)])
    return _unless_ours(name, spec) if spec is not None else ""


def _unless_ours(name: str, spec: ModuleSpec) -> str:
    where = _place(spec)
    return "" if _is_ours(name, where) else where


def _stranger_loaded(name: str) -> str:
    module = sys.modules.get(name)
    if module is None:
        return ""
    spec = getattr(module, "__spec__", None)
    where = getattr(module, "__file__", None) or (_place(spec) if spec is not None else "") or repr(module)
    return "" if _is_ours(name, where) else where


def _place(spec: ModuleSpec) -> str:
    """The file of a package or module; the folder of a package without `__init__.py`."""
    if spec.has_location and spec.origin:
        return spec.origin
    return next(iter(spec.submodule_search_locations or ()), "")


def _is_ours(name: str, where: str) -> bool:
    return not where or os.path.realpath(where) == str(HOME / name / "__init__.py")
