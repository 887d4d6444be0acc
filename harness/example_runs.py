"""What more runs say of the examples that a run was given: of parts that belong together, and of what is drawn."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from harness.evidence.counters import PartMix
from harness.evidence.reference import Reference
from harness.evidence.reproducibility import ROUNDING_SHARE_MAX, first_difference
from harness.evidence.trace import RunTrace
from harness.evidence.witness_values import lines_of_draws
from harness.judgement import task_summaries
from harness.judging.assumptions import without_judgement
from harness.judging.conditions import DRAWN_DATA, shown
from harness.judging.drawn_data import (
    FIXED,
    NATIVE,
    comes_again,
    comes_twice,
    draws_in_data,
    is_of_examples,
    is_settled,
    not_drawn,
    with_data_of,
    with_drawn_counts,
)
from harness.judging.unsteady_runs import differs_by_counts, unsteady
from harness.judging.verdict import Verdict
from harness.phases import phase
from simulator import LockstepError
from simulator.machines.local.scratch import scratch

if TYPE_CHECKING:
    from harness.attempts import JudgedAttempt


_FIXED_SECONDS, _FIXED_TIMES = 15.0, 3.0
"""How long a run with fixed draws may take beside the run itself."""
_LOOSE = 0.1
"""Of the examples that both times are known, those of which one device draws another part."""


def by_ties(attempt: JudgedAttempt, verdict: Verdict, reference: Reference) -> tuple[Verdict, Reference]:
    """The verdict without mixed parts that nothing ties to each other, and by what it is made."""
    if not _has_mixes(reference.trace):
        return verdict, reference
    with contextlib.suppress(LockstepError):  # then nobody knows
        reference = dataclasses.replace(reference, trace=_with_ties(reference.trace, attempt.drawn_apart()))
        verdict = attempt.judged(reference, verdict.tasks)
    return verdict, reference


# Features and labels belong together; a labelled example and an unlabelled one beside it do not, nor a negative one.


def _has_mixes(reference: RunTrace) -> bool:
    """Whether the run was seen to mix parts, as far as what one device has put together tells."""
    total = reference.clients[0].counters.all_examples
    return total is not None and bool(total.mixes)


def _with_ties(reference: RunTrace, again: RunTrace) -> RunTrace:
    """A reference that tells only of parts that belong together.

    Args:
        reference: which followed the run.
        again: that with other seeds and on another day.
    """
    first, *others = reference.clients
    total, drawn = first.counters.all_examples, again.clients[0].counters.all_examples
    if total is None or drawn is None:
        return reference
    told = msgspec.structs.replace(total, mixes=tuple(_tied(total.mixes, drawn.mixes)))
    first = msgspec.structs.replace(first, counters=msgspec.structs.replace(first.counters, all_examples=told))
    return msgspec.structs.replace(reference, clients=(first, *others))


def _tied(mixes: Sequence[PartMix], drawn: Sequence[PartMix]) -> Iterator[PartMix]:
    again = {mix.parts: dict(mix.owners) for mix in drawn}
    for mix in mixes:
        owners = again.get(mix.parts, {})
        both = [owners[one] == value for one, value in mix.owners if one in owners]
        if mix.parts in again and both.count(False) <= _LOOSE * len(both):
            yield mix


def by_ranks(attempt: JudgedAttempt, verdict: Verdict, reference: Reference) -> tuple[Verdict, Reference]:
    """The verdict, or that by ranks, where one that is inconsistent is wrong or unexplained without them."""
    lines = lines_of_draws(reference.trace, "order") if reference.follows else ()

    def explained(by: Reference) -> bool:
        return attempt.judged(by, verdict.tasks, diagnose=True).explanation is not None

    if verdict.outcome == "inconsistent" and lines:
        phase("following it again, for what an order of rows means")
        with contextlib.suppress(LockstepError):  # then nothing more is known
            ranked, by = attempt.by_ranks(verdict.tasks)
            if ranked.outcome == "consistent" or (explained(by) and not explained(reference)):
                note = f"the order that replicas draw at {shown(lines)} gives each row a rank"
                return dataclasses.replace(ranked, notes=(*ranked.notes, note)), by
    return verdict, reference


def by_counts(attempt: JudgedAttempt, verdict: Verdict, reference: Reference) -> Verdict:
    """A verdict by which only steps or examples are other ones, unless one device has others another time, too."""
    with contextlib.suppress(LockstepError):  # then nobody knows
        found = first_difference(reference.trace.clients[0], attempt.again(later=True).clients[0])
        if found is not None and found.share > ROUNDING_SHARE_MAX:
            return without_judgement(verdict, unsteady(found.text))
        if attempt.changes is None and is_of_examples(verdict):
            return with_drawn_counts(verdict, attempt.first, reference.trace, attempt.drawn_apart())
    return verdict


def by_drawn_data(attempt: JudgedAttempt, verdict: Verdict, reference: Reference) -> Verdict:
    """A consistent verdict on examples that one device does not draw, with what more is known of these."""
    if attempt.changes is None and draws_in_data(attempt.first):
        phase("running it again, with one number for all that its datasets draw")
        # A loop may wait for another number.
        within = min(attempt.asked.timeout, _FIXED_SECONDS + _FIXED_TIMES * (time.monotonic() - attempt.began))
        asked = dataclasses.replace(attempt.asked, timeout=within)
        told = dataclasses.replace(attempt.program, fixed_draws=True)
        with scratch("fixed") as place, contextlib.suppress(LockstepError):
            again = dataclasses.replace(attempt, program=told, directory=place, asked=asked)
            fixed, other = by_ties(again, *again.by_one_replica(task_summaries(again.run())))
            if other.follows:
                fixed = by_counts(again, fixed, other) if differs_by_counts(fixed) else fixed
                if not is_settled(fixed):
                    return _unless_drawn(again, verdict, other)
                if fixed.outcome == "inconsistent":
                    fixed = again.judged(other, fixed.tasks, diagnose=True)
                return with_data_of(verdict, fixed, FIXED)
    return _unless_drawn(attempt, verdict, reference)


def _unless_drawn(attempt: JudgedAttempt, verdict: Verdict, reference: Reference) -> Verdict:
    """A verdict that is not judged where the run's examples are not one device's however that draws."""
    try:
        again = attempt.drawn_apart()
    except LockstepError:  # then nobody knows
        return verdict
    if attempt.case.workers > 1 and (why := comes_twice(attempt.first, reference.trace, again)) is not None:
        return dataclasses.replace(verdict, abstained=why)
    if (why := not_drawn(reference.trace, again)) is None:
        return verdict
    verdict = dataclasses.replace(
        verdict, conditions=tuple(each for each in verdict.conditions if each.code != DRAWN_DATA)
    )
    with contextlib.suppress(LockstepError):  # it may not compute as it is on one device
        native = _read_by_one_replica(attempt, verdict, reference)
        if native is not None and comes_again(native):
            return with_data_of(verdict, native, NATIVE)
    return dataclasses.replace(verdict, abstained=why)


def _read_by_one_replica(attempt: JudgedAttempt, verdict: Verdict, reference: Reference) -> Verdict | None:
    """What a script says of a run's examples that is told of one replica, where its reference is told of several.

    By that number a script may take a worker's share of its files, so that its reference reads no other one.
    """
    script, told = attempt.program.script, reference.trace.clients[0].counters.stand_ins
    if script is None or not told:
        return None
    steps = max(len(each.seen) for each in attempt.first.clients)
    one = dataclasses.replace(attempt, program=attempt.program.natively(steps))
    return one.by(attempt.asked.venue(attempt.case), verdict.tasks)[0]
