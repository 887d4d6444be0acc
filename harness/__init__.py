"""Judges whether a training gives the same numbers distributed as on one device."""

# ruff: noqa: E402 - whose `simulator` it is has to be settled before the first import of it
from _lockstep.names import claim as _claim

_claim("simulator")

from harness.errors import MissingHardware, NothingObserved, SharedState
from harness.judging.verdict import Verdict
from harness.ledger import Ledger
from harness.proofs import prove
from harness.relations import Proof
from harness.running.observe import observe
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, catalogue, strategy_case
from harness.verify import verify
from simulator.launch import also_preload as _also_preload

# What runs in every client, and the parts of NumPy that it needs, which NumPy imports when they are asked for.
_also_preload(*(f"harness.recording.{module}" for module in ("client", "forcing", "noise", "recorder", "touched")))
_also_preload("numpy.ma", "numpy.random")

__all__ = [
    "Ledger",
    "MissingHardware",
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
]
