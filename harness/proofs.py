"""From a program to a proof: right for every batch, or under which conditions, or where it is wrong."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from harness.evidence.step_graph import SAME_NUMBER
from harness.refuting import confirmed, refuted
from harness.relations.meshes import doubts_of_mesh
from harness.relations.proof import Proof, SourcePlace, Suspect, Under
from harness.relations.prover import proof_of
from harness.running.observe import check_hardware
from harness.running.step_graphs import StepGraphs, tracing
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, strategy_case
from simulator import DeadlineExceeded, LockstepError
from simulator.agent.places import file_and_line, source_at

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
        timeout: seconds until the step has to be traced, and for all that comes after.
        seed: given to Python, NumPy, TensorFlow and Keras before the start.

    Returns:
        A `Proof`: true when the step is right for every batch, be it under conditions. `str` of it explains.

    Raises:
        UsageError: something that does not exist.
        MissingHardware: the strategy needs hardware that is not there.
        RunFailed: the program failed before its first training step.
    """
    with proving(Program.of(program), strategy_case(strategy), seed=seed, timeout=timeout) as proof:
        return proof(timeout, refutes=True)


class WaitForProof(Protocol):
    """Waits for the proof, for so many seconds at most."""

    def __call__(self, seconds: float, *, refutes: bool) -> Proof:
        """The proof; with `refutes` a batch may refute the step."""


@contextlib.contextmanager
def proving(program: Program, case: StrategyCase, *, seed: int, timeout: float) -> Iterator[WaitForProof]:
    """As `prove`, while the caller goes on.

    Yields:
        What waits for the proof.
    """
    check_hardware(case)
    if (why := hidden(case)) is not None:
        yield lambda seconds, *, refutes: Proof("open", program.name, case.name, reasons=(why,))
        return
    with tracing(program, case, seed=seed, timeout=timeout) as traced:

        def proof(seconds: float, *, refutes: bool) -> Proof:
            deadline = time.monotonic() + seconds
            graphs = traced(seconds)
            began = time.monotonic()
            found = inferred(graphs, program=program.name, strategy=case.name)
            inferring = time.monotonic() - began
            found = dataclasses.replace(found, tracing_seconds=graphs.seconds, inferring_seconds=inferring)
            if case.family.on_mesh:
                return _on_mesh(found, graphs)
            if not (found or refutes):
                return found
            began = time.monotonic()
            try:
                found = (confirmed if found else refuted)(found, graphs, program, case, seed=seed, deadline=deadline)
            except DeadlineExceeded:
                why = f"some batches were not tried, since {seconds:.0f} s had passed; `lockstep prove` may take more"
                found = dataclasses.replace(found, status="open", conditions=(), reasons=(*found.reasons, why))
            return dataclasses.replace(found, trying_seconds=time.monotonic() - began)

        yield proof


def is_asked(prove: bool | None) -> bool:
    """Whether a verdict says what is proved; `prove` as of `verify`."""
    return os.environ.get(PROVE_VARIABLE) != "0" if prove is None else prove


@contextlib.contextmanager
def proved(program: Program, case: StrategyCase, *, seed: int, timeout: float) -> Iterator[WaitForProof]:
    """As `proving`, for a verdict, which it never fails: what goes wrong leaves the proof open."""

    def open_since(why: str) -> Proof:
        return Proof("open", program.name, case.name, reasons=(why,))

    def untraced(error: LockstepError) -> Proof:
        return open_since(f"it could not be traced: {str(error).splitlines()[0]}")

    if program.script is not None:
        yield lambda seconds, *, refutes: open_since("what a script does is not followed in its graphs")
        return
    with contextlib.ExitStack() as stack:
        try:
            proof = stack.enter_context(proving(program, case, seed=seed, timeout=timeout))
        except LockstepError as error:
            failed = untraced(error)
            yield lambda seconds, *, refutes: failed
            return

        def found(seconds: float, *, refutes: bool) -> Proof:
            try:
                return proof(seconds, refutes=refutes)
            except LockstepError as error:
                return untraced(error)

        yield found


def hidden(case: StrategyCase) -> str | None:
    """Why nothing can be proved under a strategy, or None."""
    if case.family.variables_on == "servers":
        return (
            "under parameter servers a step is what several workers do at different times; no proof is defined for it"
        )
    if case.accelerator == "tpu":
        return "on a TPU all replicas are traced as one; no proof is defined for it"
    if case.rehearsed:
        return "a rehearsal for a TPU has one replica, as the reference has, so that there is nothing to prove"
    return None


def _on_mesh(found: Proof, graphs: StepGraphs) -> Proof:
    """What follows where operations mean whole tensors; no smaller batch is tried, which may not fit the mesh."""
    unlike = [each.unlike for each in graphs.clients if each.unlike is not None]
    if unlike:
        where = file_and_line(unlike[0])
        place = None if where is None else SourcePlace(*where, source_at(*where), "pack")
        suspect = Suspect(place, "the devices are given different copies of what is one tensor for the step", "")
        return dataclasses.replace(found, status="refuted", conditions=(), reasons=(), suspects=(suspect,))
    doubts = tuple(dict.fromkeys(doubts_of_mesh(graphs.clients)))
    if doubts:
        return dataclasses.replace(found, status="open", conditions=(), reasons=(*found.reasons, *doubts))
    if not found:
        return found
    # What a program lays out itself has the sizes of its first batch.
    return dataclasses.replace(found, status="conditional", conditions=(*found.conditions, Under(SAME_NUMBER, ())))


def inferred(graphs: StepGraphs, **named: str) -> Proof:
    """What follows from graphs; a defect of the inference leaves it open."""
    try:
        return proof_of(graphs.clients, graphs.reference, **named)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the inference, it claims nothing
        return Proof("open", named["program"], named["strategy"], reasons=(f"the inference failed: {error!r}",))
