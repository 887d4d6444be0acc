"""Which trainings there are: of a family and a seed follow the program, its numbers, and the strategy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from random import Random
from types import ModuleType
from typing import Any

from harness.subject.program import Program
from tools.sweeping import families

# Most under two replicas, since that is the cheapest; the others add up other numbers of parts.
_STRATEGIES = {"mirrored-2": 6, "mirrored-3": 1, "mirrored-4": 2, "multi_worker-2": 2}
# Some that two, three or four replicas divide, and some that none of them does.
_BATCHES = (7, 8, 9, 12, 13, 16, 24)


def family_names() -> tuple[str, ...]:
    """Every family, sorted."""
    return tuple(sorted(info.name for info in iter_modules(families.__path__)))


def says(family: str) -> str:
    """What a family is, from the first line of its file."""
    return (_module(family).__doc__ or "").partition("\n")[0].partition(": ")[2].rstrip(".")


@dataclass(frozen=True)
class Case:
    """One random training: everything about it follows from the name of its family and a seed."""

    family: str
    seed: int

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{self.family}-{self.seed}"

    @property
    def strategy(self) -> str:
        """What it is run under."""
        return self._drawn[0]

    @property
    def numbers(self) -> dict[str, Any]:
        """What was drawn, as the program's keyword arguments."""
        return dict(self._drawn[1])

    @cached_property
    def _drawn(self) -> tuple[str, dict[str, Any]]:
        random, module = (
            Random(f"{self.family}:{self.seed}"),
            _module(self.family),
        )  # of a text, hashed the same anywhere
        suits: Callable[[str], bool] = getattr(module, "SUITS", lambda strategy: True)
        weights = {name: weight for name, weight in _STRATEGIES.items() if suits(name)}
        (strategy,) = random.choices(list(weights), list(weights.values()))
        common = {
            "batch": random.choice(_BATCHES),
            "steps": random.randrange(3, 13),
            "split": random.choice(["dataset", "slices"]),
        }
        numbers = common | module.draw(random)
        # TensorFlow gives workers that do not divide a batch other batches than one device has: it is one of the known
        # issues, `rebatch-across-batches`.
        if strategy.startswith("multi_worker") and numbers["batch"] % 2:
            numbers["split"] = "slices"
        return strategy, numbers

    def program(self) -> Program:
        """The program under test."""
        train = functools.partial(_module(self.family).train, **self.numbers)
        return replace(Program.of(train), name=self.name)


def _module(family: str) -> ModuleType:
    return import_module(f"{families.__name__}.{family}")
