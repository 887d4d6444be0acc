"""Runs a step on a few rows: to show that it is wrong, or that what was inferred of it is not contradicted."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass

from harness.recording.tracing import BatchOutcome
from harness.refuting.batches import batches_of, even_shards, has_iterator, rows_of, uneven_shards
from harness.refuting.differences import BatchDifference, Carried, differences_of_batch, is_the_same
from harness.relations import COARSE, NONEMPTY
from harness.relations.proof import Counterexample, Proof, Suspect
from harness.running.reference_request import FIRST_SEEDS, MORE_SEEDS
from harness.running.step_graphs import StepGraphs, noisy_outcomes, try_batches
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator import DeadlineExceeded, LockstepError

_OPERATIONS_MAX = 20_000
"""A function of more operations, such as three of ResNet50, is run as it has been traced; on a busy machine too."""
_BATCHES_MIN = 2
"""So many batches have to be carried out."""
_CONTRADICTED = "what was inferred of the graph is contradicted by a batch: a rule, or the graph, is not what it seems"
_WITHOUT_NOISE = "a batch differs, and it is not known by how much rounding makes it differ: with noise the step fails"
_NO_ZEROS = (
    "a batch of zeros, which shows what a step adds whatever its examples are, says nothing: the step fails for it, "
    "does not end, or gives what is not finite"
)

_Shards = tuple[int, ...]
"""How many rows each replica gets of a batch."""


@dataclass
class _Tried:
    """What came of a batch that was carried out.

    Attributes:
        carried: in each client, and on one device.
        differences: by variable, the worst first.
        noisy: what came of it on one device with noise.
    """

    carried: Carried
    differences: list[BatchDifference]
    noisy: list[BatchOutcome] = dataclasses.field(default_factory=list)

    @property
    def found(self) -> BatchDifference | None:
        """What differs most."""
        return next(iter(self.differences), None)


_Told = dict[_Shards, _Tried]


def refuted(
    proof: Proof, graphs: StepGraphs, program: Program, case: StrategyCase, *, seed: int, deadline: float
) -> Proof:
    """The proof, refuted if a batch shows until then (of `time.monotonic`) that what may be wrong is.

    Only values that a program reports, or trains, refute it; whatever else it keeps may be its own affair.
    """
    if proof.status != "open" or not any(suspect.definite for suspect in proof.suspects):
        return proof
    even, uneven = list(even_shards(graphs, case.replicas)), list(uneven_shards(graphs, case.replicas))
    shards = even + uneven
    if not shards:
        return proof
    real = _real(graphs, case.replicas)
    told = _told(graphs, [*shards, *real], program, case, seed=seed, deadline=deadline)
    if told is None:
        return proof
    # It may be made for as many rows as it has.
    shown = [] if _agree(told, real) else _shown(told, even)
    shown = shown or _shown(told, uneven) or _plainly_shown(told, real)
    own = [each for each in (*even, *real) if each in told]
    if own and not shown:
        zeros = _told(graphs, own, program, case, seed=seed, deadline=deadline, zeros=True) or {}
        shown = _uncovered(graphs, zeros, told[own[-1]])
        if sum(_is_finite(each) for each in zeros.values()) < _BATCHES_MIN <= len(own):
            proof = dataclasses.replace(proof, reasons=(*proof.reasons, _NO_ZEROS))
    if not shown:
        return proof
    # Of what may be wrong that which is in the variable that is; else what is something else than it should be.
    of_variable = (each for each in proof.suspects if each.value == f"variable {shown[0].variable!r}")
    wrong = next(itertools.chain(of_variable, (each for each in proof.suspects if each.definite)))
    rest = [each for each in proof.suspects if each is not wrong]
    first = dataclasses.replace(wrong, definite=True, counterexample=shown[0])
    return dataclasses.replace(proof, status="refuted", suspects=(first, *rest))


def confirmed(
    proof: Proof, graphs: StepGraphs, program: Program, case: StrategyCase, *, seed: int, deadline: float
) -> Proof:
    """The proof of a right step, held against a few batches; refuted if one of them shows that it is wrong.

    Rules may say too much, and a program may make another graph where the number of rows is known: the function is run
    as the program runs it. What cannot be carried out says nothing.
    """
    if not proof:
        return proof
    conditions = {each.what for each in proof.conditions}
    even, uneven = list(even_shards(graphs, case.replicas)), list[tuple[int, ...]]()
    if conditions <= {COARSE, NONEMPTY}:
        uneven = list(uneven_shards(graphs, case.replicas, anyhow=True))
    shards = [*even, *uneven]
    if not shards:
        return proof
    # Tracing takes its time: only the largest are traced for just so many rows, and of large models none.
    anew = [*even[-1:], *uneven[-1:]] if graphs.operations <= _OPERATIONS_MAX else []
    real = _real(graphs, case.replicas)
    told = _told(graphs, [*shards, *real], program, case, seed=seed, deadline=deadline, anew=anew)
    if told is None:
        return dataclasses.replace(proof, status="open", conditions=(), reasons=(_WITHOUT_NOISE,))
    for kind in (even, uneven):
        contradicted = [found for each in kind if (found := _counterexample(told, each)) is not None]
        if not contradicted:
            continue
        if not (shown := _shown(told, kind)) or (kind is even and _agree(told, real)):
            why = f"{contradicted[0].text}, and other batches do not say so"
            return dataclasses.replace(proof, status="open", conditions=(), reasons=(why,))
        wrong = Suspect(None, _CONTRADICTED, shown[0].value, definite=True, counterexample=shown[0])
        return dataclasses.replace(proof, status="refuted", conditions=(), suspects=(wrong,))
    return dataclasses.replace(proof, tried=tuple(each for each in shards if each in told))


def _real(graphs: StepGraphs, replicas: int) -> list[_Shards]:
    """As many rows as each replica has of the first batch, if that is known and they have equally many."""
    rows = rows_of(graphs)
    counts = tuple(len(rows.get(at, ())) for at in range(replicas))
    return [counts] if counts[0] and len(set(counts)) == 1 and not has_iterator(graphs) else []


def _told(
    graphs: StepGraphs,
    shards: Sequence[_Shards],
    program: Program,
    case: StrategyCase,
    *,
    seed: int,
    deadline: float,
    anew: Container[_Shards] = (),
    zeros: bool = False,
) -> _Told | None:
    """Carry out batches of so many rows for each replica; those that cannot be say nothing.

    What differs is held against what rounding does: with noise the step is carried out on one device by as many seeds
    as a verdict in numbers takes before it accuses. None where that cannot be.

    Raises:
        DeadlineExceeded: it is not done by then.
    """
    every = list(dict.fromkeys(shards))
    shares, whole = batches_of(graphs, every, anew, zeros=zeros)
    seconds = _left(deadline)
    try:
        outcomes = try_batches(program, case, shares, whole, seed=seed, timeout=seconds)
    except LockstepError:
        _left(deadline)
        return {}
    told: _Told = {}
    for number, (lengths, reference) in enumerate(zip(every, outcomes.reference, strict=False)):
        runs = [each[number] for each in outcomes.clients if len(each) > number]
        if runs and all(each.failed is None for each in (*runs, reference)):
            told[lengths] = _Tried((runs, reference), differences_of_batch(graphs, (runs, reference)))
    for noise in (FIRST_SEEDS, MORE_SEEDS):
        unsure = {lengths: each for lengths, each in told.items() if not all(one.is_plain for one in each.differences)}
        if not unsure:
            break
        batches = [whole[every.index(lengths)] for lengths in unsure]
        again = noisy_outcomes(program, batches, case.replicas, noise, seed=seed, timeout=_left(deadline))
        for number, (lengths, tried) in enumerate(unsure.items()):
            tried.noisy += [each[number] for each in again if len(each) > number and each[number].failed is None]
            if tried.noisy:
                tried.differences = differences_of_batch(graphs, tried.carried, tried.noisy)
            else:  # nothing is known of this one
                del told[lengths]
        if not told:
            return None
    return told


def _left(deadline: float) -> float:
    """Seconds."""
    if (seconds := deadline - time.monotonic()) <= 0:
        raise DeadlineExceeded("batches to be tried", 0.0)
    return seconds


def _counterexample(told: _Told, lengths: _Shards) -> Counterexample | None:
    """What such a batch shows to be wrong; None as well where it was not carried out."""
    if (tried := told.get(lengths)) is None or (found := tried.found) is None:
        return None
    return Counterexample(lengths, found.value, found.expected, found.found, found.variable)


def _agree(told: _Told, shards: Sequence[_Shards]) -> bool:
    """Whether these were carried out, and are right."""
    return bool(shards) and all(each in told and told[each].found is None for each in shards)


def _shown(told: _Told, shards: Sequence[_Shards]) -> list[Counterexample]:
    """The batches that show it, from the smallest on, if the largest does."""
    found = [_counterexample(told, each) for each in shards if each in told]
    # Of two examples statistics may be nothing but rounding; what is wrong is so of the largest batch as well.
    if len(found) < _BATCHES_MIN or found[-1] is None:
        return []
    return [each for each in found if each is not None]


def _plainly_shown(told: _Told, real: Sequence[_Shards]) -> list[Counterexample]:
    """The program's own batch, if no accident explains it: what is wrong may be so of as many rows only."""
    plain = [each for each in real if each in told and (found := told[each].found) is not None and found.is_plain]
    return [shown for each in plain if (shown := _counterexample(told, each)) is not None]


def _is_finite(tried: _Tried) -> bool:
    """Whether what one device has made of a batch can be compared."""
    import numpy as np

    every = (copy.numpy() for copies in tried.carried[1].after.values() for copy in copies)
    return all(np.isfinite(each).all() for each in every if each.dtype.kind == "f")


def _uncovered(graphs: StepGraphs, zeros: _Told, own: _Tried) -> list[Counterexample]:
    """The batches of zeros that show what rounding hides in the program's own.

    What a step adds whatever its examples are, such as a penalty, is little beside what these add, and most of what it
    adds for zeros. Other data may be wrong in another way, for which no program is made: the difference has to be the
    same.
    """
    found = []
    for lengths, tried in zeros.items():
        same = (each for each in tried.differences if is_the_same(graphs, each.variable, tried.carried, own.carried))
        if (shown := next(same, None)) is not None:
            found.append(Counterexample(lengths, shown.value, shown.expected, shown.found, shown.variable, zeros=True))
    return found if len(found) >= _BATCHES_MIN else []
