"""From a program to a proof: right for every batch, or under which conditions, or where it is wrong."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

from harness.refuting import confirmed, refuted
from harness.relations.proof import Proof
from harness.relations.proving import proof_of
from harness.running.observe import check_hardware
from harness.running.traced import Graphs, trace_step
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, strategy_case
from simulator import LockstepError

__all__ = ["PROVE_VARIABLE", "is_asked", "prove", "proved"]

PROVE_VARIABLE = "LOCKSTEP_PROVE"
"""Set to 0, nothing is proved where nobody has asked: in a suite of hundreds of programs it takes its seconds in each.
"""

_SEED = 20


def prove(
    program: Callable[..., Any] | str | Program,
    strategy: str | StrategyCase,
    *,
    timeout: float = 120.0,
    seed: int = _SEED,
) -> Proof:
    """Infer from the graph of a program's training step whether it is right for every batch.

    The step is traced under the strategy and under the default strategy; what is inferred is then held against a few
    small batches, on which it is run.

    Args:
        program: `train(strategy, record)`, or `FILE.py:FUNCTION`.
        strategy: a name such as `mirrored-2`, see `lockstep strategies`.
        timeout: seconds until the step has to be traced.
        seed: given to Python, NumPy, TensorFlow and Keras before the start.

    Returns:
        A `Proof`: true when the step is right for every batch, be it under conditions. `str` of it explains.

    Raises:
        UsageError: something that does not exist.
        MissingHardware: the strategy needs hardware that is not there.
        RunFailed: the program failed before its first training step.
    """
    case, under_test = strategy_case(strategy), Program.of(program)
    check_hardware(case)
    if (why := hidden(case)) is not None:
        return Proof("open", under_test.name, case.name, reasons=(why,))
    began = time.monotonic()
    graphs = trace_step(under_test, case, seed=seed, timeout=timeout)
    traced = time.monotonic()
    proof = inferred(graphs, program=under_test.name, strategy=case.name)
    proof = dataclasses.replace(proof, tracing_seconds=traced - began, inferring_seconds=time.monotonic() - traced)
    decide = confirmed if proof else refuted
    return decide(proof, graphs, under_test, case, seed=seed, timeout=timeout)


def is_asked(prove: bool | None) -> bool:
    """Whether a verdict says what is proved; `prove` as of `verify`."""
    return os.environ.get(PROVE_VARIABLE) != "0" if prove is None else prove


def proved(program: Program, case: StrategyCase, *, seed: int, timeout: float) -> Proof:
    """As `prove`, for a verdict, which it never fails: what goes wrong leaves the proof open."""
    if program.script is not None:
        return Proof("open", program.name, case.name, reasons=("what a script does is not followed in its graphs",))
    try:
        return prove(program, case, seed=seed, timeout=timeout)
    except LockstepError as error:
        return Proof(
            "open", program.name, case.name, reasons=(f"it could not be traced: {str(error).splitlines()[0]}",)
        )


def hidden(case: StrategyCase) -> str | None:
    """Why nothing can be proved under a strategy, or None."""
    if case.family.name.startswith("parameter_server"):
        return (
            "under parameter servers a step is what several workers do at different times; no proof is defined for it"
        )
    if case.accelerator == "tpu":
        return "on a TPU all replicas are traced as one; no proof is defined for it"
    if case.rehearsed:
        return "a rehearsal for a TPU has one replica, as the reference has, so that there is nothing to prove"
    return None


def inferred(graphs: Graphs, **named: str) -> Proof:
    """What follows from graphs; a defect of the inference leaves it open."""
    try:
        return proof_of(graphs.clients, graphs.reference, **named)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the inference, it claims nothing
        return Proof("open", named["program"], named["strategy"], reasons=(f"the inference failed: {error!r}",))
