"""Runs at the start of each Python process whose PYTHONPATH names this folder, and has it watched where that is asked.

`LOCKSTEP_WATCH=DIR`, or `LOCKSTEP_WATCH=500:DIR`, says where evidence is left, and of which steps.
Nothing is imported before the program imports TensorFlow. Whatever goes wrong is a line on stderr.
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would double the time of a start


class _Watching(importlib.abc.MetaPathFinder):
    """Has the training watched as soon as TensorFlow has been imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        run_module = spec.loader.exec_module

        def run_and_watch(module: ModuleType) -> None:
            run_module(module)
            _watch()

        spec.loader.exec_module = run_and_watch  # type: ignore[method-assign]
        return spec


def _asked(value: str) -> tuple[int | None, str] | None:
    """Of which steps evidence is left, if that is said, and where; None if the value is malformed."""
    every, colon, out = value.partition(":")
    is_number = every.isascii() and every.isdigit()
    if not colon:
        return None if is_number else (None, every)
    return (int(every), out) if is_number and int(every) and out else None


def _watch() -> None:
    value = os.environ["LOCKSTEP_WATCH"]
    if (asked := _asked(value)) is None:
        form = "EVERY:DIR, such as 500:/shared/evidence, or DIR"
        sys.stderr.write(f"lockstep watch: LOCKSTEP_WATCH={value} is malformed, and nothing is watched; write {form}\n")
        return
    every, out = asked
    try:
        sys.path.append(os.path.dirname(os.path.dirname(_HERE)))  # noqa: PTH120 - as above
        from harness.watch import EVERY, watch

        watching = watch(every or EVERY, out=out)
        watching.__enter__()
        atexit.register(watching.__exit__, None, None, None)
    except Exception as error:  # noqa: BLE001 - the program must not notice
        sys.stderr.write(f"lockstep watch: {type(error).__name__}: {error}\n")


def _run_other_sitecustomize() -> None:
    """The one that Python would have run without this directory on its path."""
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]  # noqa: PTH100 - as above
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    if os.environ.get("LOCKSTEP_WATCH"):
        sys.meta_path.insert(0, _Watching())
    _run_other_sitecustomize()
