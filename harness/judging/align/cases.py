"""How a run in parts is judged: each part by every law against the same steps of the reference, and all as one run.

A program counts its calls of `record.step` from 1 in every incarnation and does not say where it has resumed. The last
part is aligned with the reference by its end, as `harness.judging.interruption` has it. A part before it that was
resumed and killed has neither end in common with the reference: it is taken to begin where the laws find nothing wrong
with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import msgspec

from harness.evidence.batch_statistics import with_means
from harness.evidence.corrupt_values import CorruptValue
from harness.evidence.counters import Counters
from harness.evidence.observed import epoch_ends, moments, per_epoch
from harness.evidence.parts import Part, Parts
from harness.evidence.reference import Reference
from harness.evidence.step_range import steps_between
from harness.evidence.trace import ClientTrace, RunTrace, Step
from harness.evidence.witness_values import completed, completed_parts, with_seen
from harness.judging.align.local_values import with_local_values_marked
from harness.judging.align.other_draws import steps_with_other_draws, told
from harness.judging.align.overflow import overflown
from harness.judging.align.variable_names import named_as
from harness.judging.interruption import Interruption
from harness.judging.laws import judge_all
from harness.judging.laws.protocol import Case, StruckAt
from harness.judging.laws.updates_counted import counter
from harness.judging.tolerance import tolerance_of


@dataclass
class _Done:
    """What the parts so far have done: the step reached, and what each client recorded, later steps over earlier."""

    reached: int = 0
    steps: dict[str, dict[int, Step]] = field(default_factory=dict)
    clients: dict[str, ClientTrace] = field(default_factory=dict)

    def add(self, run: RunTrace, shift: int, begin: int) -> None:
        """Keep the steps of a part that begins there, `shift` later than they count themselves.

        A process counts the closures that it has scheduled itself; here they are those of the whole training.
        """
        for client in run.clients:
            task = client.header.task
            self.clients.setdefault(task, client)
            own = self.steps.setdefault(task, {})
            behind = (own[begin].scheduled if begin in own else None) or 0
            for step in client.steps:
                scheduled = None if step.scheduled is None else step.scheduled + behind
                own[step.index + shift] = msgspec.structs.replace(step, index=step.index + shift, scheduled=scheduled)

    def trace(self) -> RunTrace:
        """All of it as if it were one run, up to the last kill."""
        return RunTrace(
            tuple(
                ClientTrace(
                    client.header,
                    tuple(self.steps[task][index] for index in sorted(self.steps[task])),
                    counters=Counters(per_epoch=client.counters.per_epoch),
                )
                for task, client in self.clients.items()
            )
        )


def aligned_cases(parts: Parts, reference: Reference) -> tuple[Case, ...]:
    """The cases of a run, in the order of its parts; the last one is that of the last part.

    A part in which a client recorded nothing has none: there is nothing to hold against the reference.
    """
    parts, reference, notes = _completed(parts, reference)
    named = (replace(part, trace=named_as(part.trace, reference.trace)) for part in parts.earlier)
    parts = replace(parts, last=named_as(parts.last, reference.trace), earlier=tuple(named))
    number = 1 + len(parts.earlier)
    follows, wholes = reference.follows, reference.standing.are_wholes
    done, apart = _Done(), steps_with_other_draws(reference.trace)
    cases: list[Case] = []
    struck: tuple[StruckAt, ...] = ()
    for k, part in enumerate(parts.earlier, start=1):
        if part.common == 0:  # it may have got no further than one step
            done.reached += part.furthest
            continue
        begin, case = _killed_case(part, done.reached if k > 1 else 0, reference)
        if reference.follows:
            apart = apart | overflown(case.reference, case.run)
        struck = (*_restored(case, struck), *_corrupt_values_of_case(case, part.struck))
        cases.append(replace(case, struck=struck, where=_where(k, number), apart=apart, follows=follows, wholes=wholes))
        # Ends of epochs count from 1 in each part, steps are those of the reference already.
        done.add(case.run, begin if per_epoch(case.run, reference.trace) else 0, begin)
        done.reached = max(done.reached, begin + part.furthest)
    last = _last_case(parts, reference, done)
    if reference.follows:
        apart |= overflown(last.reference, last.run)
    struck = (*_restored(last, struck), *_corrupt_values_of_case(last, parts.struck))
    return (
        *cases,
        replace(
            last,
            links=parts.links,
            saves=parts.saves,
            struck=struck,
            where=_where(number, number) if cases else "",
            notes=(*notes, *told(apart, reference.trace)),
            apart=apart,
            follows=follows,
            wholes=wholes,
        ),
    )


def begins(parts: Parts, reference: Reference) -> tuple[int, ...]:
    """Of each case, in their order, how many steps of the reference lie before it."""
    return tuple(case.begin for case in aligned_cases(parts, reference))


def _completed(parts: Parts, reference: Reference) -> tuple[Parts, Reference, tuple[str, ...]]:
    """Both with what the harness saw by itself, where nobody reported it.

    Not of a function's run in parts: of one that was killed it is not known what it was about to report.
    """
    if parts.earlier or parts.must_resume:
        if parts.last.header.at_once:
            return _in_parts(parts, reference)
        if not reference.follows:
            return parts, reference, ()
        trace, *perturbed = map(with_seen, (reference.trace, *reference.perturbed))
        return parts, replace(reference, trace=trace, perturbed=tuple(perturbed)), ()
    found = completed([reference.trace, parts.last, *reference.perturbed], with_examples=2)
    truth, last, *perturbed = found.traces
    last, truth, *perturbed = with_means(last, truth, *perturbed)
    return replace(parts, last=last), replace(reference, trace=truth, perturbed=tuple(perturbed)), found.notes


def _in_parts(parts: Parts, reference: Reference) -> tuple[Parts, Reference, tuple[str, ...]]:
    of_reference = (reference.trace, *reference.perturbed)
    found = completed_parts(of_reference, [*(part.trace for part in parts.earlier), parts.last])
    truth, *others = found.traces
    perturbed, (*earlier, last) = others[: len(of_reference) - 1], others[len(of_reference) - 1 :]
    last, truth, *averaged = with_means(last, truth, *perturbed, *earlier)
    perturbed, earlier = averaged[: len(perturbed)], averaged[len(perturbed) :]
    before = tuple(replace(part, trace=trace) for part, trace in zip(parts.earlier, earlier, strict=True))
    reference = replace(reference, trace=truth, perturbed=tuple(perturbed))
    return replace(parts, last=last, earlier=before), reference, found.notes


def _where(number: int, count: int) -> str:
    """Which part it is, as findings begin."""
    if count == 2:
        return "before the interruption" if number == 1 else "resumed"
    return f"in part {number} of {count}"


def _units(run: RunTrace, reference: RunTrace) -> int:
    """How many steps the whole run records: those of the reference, or its epochs."""
    return len(epoch_ends(reference)) if per_epoch(run, reference) else len(reference.clients[0].steps)


def _last_case(parts: Parts, reference: Reference, done: _Done) -> Case:
    truth, last = reference.trace, parts.last
    recorded = max(len(client.steps) for client in last.clients)
    anew = _units(last, truth) <= recorded and not parts.saved and not parts.must_resume
    if not done.reached or anew:
        return with_local_values_marked(Case(run=last, reference=truth, tolerance=tolerance_of(reference, last)))
    before = done.trace() if done.clients else RunTrace(tuple(map(_empty, last.clients)))
    interruption = Interruption(
        at=min(done.reached, _units(before, truth)),
        before=before,
        recorded=recorded,
        in_epochs=per_epoch(last, truth),
        reference=truth,
        resume_strategy=last.header.strategy,
        saved=parts.saved,
        of_script=last.header.at_once,
    )
    return with_local_values_marked(interrupted_case(last, reference, interruption))


def _empty(client: ClientTrace) -> ClientTrace:
    return ClientTrace(client.header, counters=Counters(per_epoch=client.counters.per_epoch))


# The numbers that faults have changed, placed among the steps of a case.


def _corrupt_values_of_case(case: Case, struck: Iterable[CorruptValue]) -> tuple[StruckAt, ...]:
    """The numbers changed in the processes of a case, among its steps."""
    steps = [moment.step for moment in moments(case.run, aligned_to=case.reference) if moment.step is not None]
    begin = steps[0] - 1 if steps else case.begin
    return tuple(
        StruckAt(each, steps[each.done - 1] if 0 < each.done <= len(steps) else begin + each.done) for each in struck
    )


def _restored(case: Case, strikes: Iterable[StruckAt]) -> tuple[StruckAt, ...]:
    """Of what was changed in earlier processes, that which can have been in the state that a case began with.

    Where that is older than the change, or nothing was restored, the change is lost.
    """
    begin = case.begin
    return tuple(each for each in strikes if 0 < begin >= each.after + (each.struck.target != "variable"))


# The last part of an interrupted run, held against the steps of the reference that it had yet to do.


def interrupted_case(after: RunTrace, reference: Reference, interruption: Interruption) -> Case:
    """The case of the resumed part: what it recorded, and the steps of the reference that it should have recorded."""
    run = resumed_part(interruption, after)
    return Case(
        run=run,
        reference=steps_between(reference.trace, interruption.resumed_at + 1, None),
        tolerance=tolerance_of(reference, run),
        interruption=interruption,
    )


def resumed_part(interruption: Interruption, after: RunTrace) -> RunTrace:
    """The resumed run with the reference's step numbers, and with the closures scheduled for what it restored."""
    behind = interruption.resumed_at
    shift = 0 if interruption.in_epochs else behind  # ends of epochs are aligned when they are compared
    clients = []
    for number, client in enumerate(after.clients):
        steps = tuple(msgspec.structs.replace(step, index=step.index + shift) for step in client.steps)
        counters = client.counters
        if number == 0 and counters.scheduled is not None:
            counters = msgspec.structs.replace(counters, scheduled=counters.scheduled + _updates_until(interruption))
        clients.append(msgspec.structs.replace(client, steps=steps, counters=counters))
    return RunTrace(tuple(clients))


def _updates_until(interruption: Interruption) -> int:
    """The updates behind the restored state: those scheduled, or without a coordinator those it should count."""
    behind = interruption.resumed_at
    steps = interruption.before.clients[0].steps
    if per_epoch(interruption.before, interruption.reference):
        steps = steps[: sum(end <= behind for end in epoch_ends(interruption.reference))]
    counts = [step.scheduled for step in steps if step.index <= behind]
    if not counts:
        return 0
    expected = counter(steps_between(interruption.reference, 1, behind))
    return counts[-1] if counts[-1] is not None else 0 if expected is None else expected[1]


# A part of a run that was killed, and held against the steps of the reference that it may have done.
#
# A resumed program does not say where it has resumed. A killed part has no end by which it could be aligned with the
# reference, so that it is tried wherever it may have begun.


def _killed_case(part: Part, latest: int, reference: Reference) -> tuple[int, Case]:
    """Where a killed part began, and its case.

    Args:
        part: with steps that all clients recorded.
        latest: it began after this step, or after an earlier one. Where no law is broken; or else the fewest findings
            are, and of several such places at the latest.
        reference: of the whole run.
    """
    best, case = latest, _case_from(part, latest, reference)
    # There is no choice at the beginning, so the laws need not be asked.
    fewest = _findings(case) if latest else 0
    for begin in range(latest - 1, -1, -1):
        if not fewest:
            break
        earlier = _case_from(part, begin, reference)
        if (count := _findings(earlier)) < fewest:
            best, case, fewest = begin, earlier, count
    return best, case


def _findings(case: Case) -> int:
    return sum(len(judgement.findings) for judgement in judge_all(case))


def _case_from(part: Part, begin: int, reference: Reference) -> Case:
    truth = reference.trace
    run = steps_between(part.trace, 1, part.common)
    if per_epoch(run, truth):
        ends = [0, *epoch_ends(truth)]
        first, last = ends[min(begin, len(ends) - 1)] + 1, ends[min(begin + part.common, len(ends) - 1)]
    else:
        first, last = begin + 1, begin + part.common
        run = RunTrace(tuple(_shifted(client, begin) for client in run.clients))
    case = Case(run=run, reference=steps_between(truth, first, last), tolerance=tolerance_of(reference, run))
    return with_local_values_marked(case)


def _shifted(client: ClientTrace, by: int) -> ClientTrace:
    steps = tuple(msgspec.structs.replace(step, index=step.index + by) for step in client.steps)
    return msgspec.structs.replace(client, steps=steps)
