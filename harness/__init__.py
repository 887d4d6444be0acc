"""Judges whether a training gives the same numbers distributed as on one device.

The names are looked up when they are first asked for, so that a session of pytest, or a program that merely imports
this package, does not wait for all of it.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from _lockstep.names import claim as _claim
from _lockstep.preloads import also_preload as _also_preload

_claim("simulator")

# What runs in every client, and the parts of NumPy that it needs, which NumPy imports when they are asked for.
_also_preload("harness.recording.preloads", "numpy.ma", "numpy.random")

if TYPE_CHECKING:
    from harness.errors import MissingHardware, NoRoom, NothingObserved, SharedState
    from harness.judging.verdict import Verdict
    from harness.ledger import Ledger
    from harness.proofs import prove
    from harness.relations import Proof
    from harness.running.observe import observe
    from harness.subject.program import Program
    from harness.subject.strategies import StrategyCase, catalogue, strategy_case
    from harness.verify import verify
    from harness.watch import watch

__all__ = [
    "Ledger",
    "MissingHardware",
    "NoRoom",
    "NothingObserved",
    "Program",
    "Proof",
    "SharedState",
    "StrategyCase",
    "Verdict",
    "catalogue",
    "observe",
    "prove",
    "strategy_case",
    "verify",
    "watch",
]

_PLACES = {
    "harness.errors": ("MissingHardware", "NoRoom", "NothingObserved", "SharedState"),
    "harness.judging.verdict": ("Verdict",),
    "harness.ledger": ("Ledger",),
    "harness.proofs": ("prove",),
    "harness.relations": ("Proof",),
    "harness.running.observe": ("observe",),
    "harness.subject.program": ("Program",),
    "harness.subject.strategies": ("StrategyCase", "catalogue", "strategy_case"),
    "harness.verify": ("verify",),
    "harness.watch": ("watch",),
}


class _Harness(ModuleType):
    """Of `verify`, a function and the module that has it, the package shows the function, whoever imports first."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in __all__ or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            found = globals()[name] = getattr(importlib.import_module(place), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


sys.modules[__name__].__class__ = _Harness
