"""Judges whether a training gives the same numbers distributed as on one device."""

from harness.errors import MissingHardware, NothingObserved, SharedState
from harness.ledger import Ledger
from harness.observe import observe
from harness.program import Program
from harness.strategies import StrategyCase, catalogue, strategy_case
from harness.verdict import Verdict
from harness.verify import verify

__all__ = [
    "Ledger",
    "MissingHardware",
    "NothingObserved",
    "Program",
    "SharedState",
    "StrategyCase",
    "Verdict",
    "catalogue",
    "observe",
    "strategy_case",
    "verify",
]
