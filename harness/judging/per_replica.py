"""What replicas rightly have each for itself, by which one replica cannot stand for all: draws and state.

A mixing number for a whole batch, a mask of weights, statistics that a program keeps by hand. Where such a source is
known, a second process answers with as many replicas as the run, each of which stands for a whole; see
`harness.recording.steps.mean_replicas`. If that computes what the run did, the choice is a condition, with its line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from harness.evidence.batch_statistics import own_statistics
from harness.evidence.observed import unique_names
from harness.evidence.steps import RunEvidence, numbered
from harness.evidence.trace import RunTrace, is_statistics
from harness.evidence.variable_pairs import common_places, placed
from harness.evidence.witness_values import completed, lines_of_draws
from harness.judging.align.other_draws import steps_with_other_draws, told
from harness.judging.conditions import OWN, Condition, shown
from harness.judging.laws.protocol import Judgement
from harness.judging.not_finite import not_finite
from harness.judging.verdict import Verdict

OF_VARIABLES = "variables_match_reference"
_BY_SEVERAL = (OF_VARIABLES, "replicas_agree", "clients_agree")
"""What the process of several replicas says better: which parts clients report depends on what they add up to."""
_COMPUTED = (
    "loss_matches_reference",
    "gradients_match_reference",
    "metrics_match_reference",
    "predictions_match_reference",
    "evaluations_match_reference",
)


def sources(verdict: Verdict, reference: RunTrace, evidence: RunEvidence) -> tuple[str, ...]:
    """What each replica of the run has for itself: draws by their lines, and variables by their names.

    Args:
        verdict: by one replica.
        reference: that replica, which followed the run.
        evidence: of the run.
    """
    found = [f"draws at {where}" for where in lines_of_draws(reference, "own")]
    if trained_from(verdict, evidence):
        return tuple(found)
    apart = dict.fromkeys(name for names in _own_by_step(evidence).values() for name in names)
    explained = verdict.explanation is not None or all(is_statistics(each.variable or "") for each in verdict.findings)
    if explained and own_statistics(reference):  # then it has followed these rightly
        apart = dict.fromkeys(name for name in apart if not is_statistics(name))
    if apart:
        found.append(f"state: {shown([*apart])}")
    return tuple(found)


def trained_from(verdict: Verdict, evidence: RunEvidence) -> tuple[str, ...]:
    """Variables of which replicas had copies of their own when what is wrong began, so that it follows from them.

    A step that normalises by the batch of each replica is wrong before, and may well keep something of that. One that
    trains from a state of which each replica has its own is right as long as they have the same.
    """
    wrong = [each.step for each in verdict.findings if each.law in (OF_VARIABLES, *_COMPUTED) and each.step is not None]
    by_step = {
        index: [name for name in names if not is_statistics(name)] for index, names in _own_by_step(evidence).items()
    }
    apart = [index for index, names in by_step.items() if names]
    return tuple(by_step[min(apart)]) if wrong and apart and min(apart) < min(wrong) else ()


def own_state(evidence: RunEvidence) -> tuple[str, ...]:
    """Variables of which replicas have copies of their own, but for moving statistics."""
    names = (name for names in _own_by_step(evidence).values() for name in names)
    return tuple(dict.fromkeys(name for name in names if not is_statistics(name)))


def variables_differ(verdict: Verdict) -> bool:
    """Whether steps leave other variables than the reference's, whatever else differs."""
    return any(law.law == OF_VARIABLES and law.status == "broken" for law in verdict.judgements)


def with_own_state(verdict: Verdict, names: Sequence[str]) -> Verdict:
    """The verdict, with a note that steps train from variables of these names."""
    note = f"each replica has its own {shown([repr(name) for name in names])}, and later steps train from that"
    return replace(verdict, notes=(*verdict.notes, note))


def _own_by_step(evidence: RunEvidence) -> dict[int, tuple[str, ...]]:
    """Of the steps of which it was noted, 1, 2, 4, 8 and so on, the variables with copies of their own."""
    steps = max((reader.steps for reader in evidence.readers), default=0)
    return {1 << power: evidence.step(1 << power).own for power in range(steps.bit_length())}


def reports_own(verdict: Verdict, evidence: RunEvidence) -> bool:
    """Whether the program reports, as if it were that of all, what each replica has for itself, and that is wrong."""
    first, own = evidence.step(1), {name for names in _own_by_step(evidence).values() for name in names}
    named = set[str]()
    for number in range(first.reports):
        seen: Counter[str] = Counter()
        for _, held in first.reported(number):  # a law numbers those of a name that are reported
            if numbered(held.name, held.number) in own and not is_statistics(held.name):
                named.add(numbered(held.name, seen[held.name]))
            seen[held.name] += 1
    return any(found.law == OF_VARIABLES and found.variable in named for found in verdict.findings)


def made_for_each(verdict: Verdict, run: RunTrace, reference: RunTrace, evidence: RunEvidence) -> str | None:
    """Why one replica cannot stand for all, where it keeps something in variables of a list, one for each; else None.

    Such a list is longer in the run, and steps change what it holds: what is wrong may follow from that.
    """
    starts = [trace.clients[0].start for trace in (run, reference)]
    every = [start.variables for start in starts if start is not None]
    broken = {law.law for law in verdict.judgements if law.status == "broken"}
    if len(every) < len(starts) or not broken <= {*_COMPUTED, *_BY_SEVERAL}:
        return None
    both, names = set(common_places(every)), unique_names([each.name for each in every[0]])
    # What the step itself makes, such as an optimizer's slots, one device may make later.
    later = {place for seen in reference.clients[0].seen[:1] for place, _ in placed(seen.variables or ())}
    there = {*both, *later}
    alone = [name for (place, _), name in zip(placed(every[0]), names, strict=True) if place not in there]
    changed = _changed(evidence) if alone else ()  # which reads all state of two steps
    more = [name for name in alone if name in changed]
    if not more:
        return None
    return (
        f"the run makes variables that one device does not make ({shown([repr(name) for name in more])}), such as one "
        "for each replica, and one replica cannot stand for what they keep. Keep what each replica has in one variable "
        "of the strategy's, with synchronization=tf.VariableSynchronization.ON_READ"
    )


def drawn_by_each(verdict: Verdict, reference: RunTrace, evidence: RunEvidence) -> str | None:
    """Why one replica cannot stand for all, where nothing is trained and each draws for itself; else None.

    So it is with a number for all rows of a replica, and with what nobody sees. Of a step that trains it is seen which
    draws are each replica's own, and a second process settles them.
    """
    broken = {law.law for law in verdict.judgements if law.status == "broken"}
    if reference.clients[0].seen or not broken <= set(_COMPUTED):
        return None
    if (unseen := reference.clients[0].counters.apart) is not None:
        return f"{unseen}, in a call that trains nothing"
    operations = list(dict.fromkeys(evidence.step(1).own_numbers()))
    if not operations:
        return None
    return (
        f"each replica draws a number of its own for all of its rows ({shown(operations)}), in a call that trains "
        "nothing: what one device draws for the whole batch is another one. Draw a number for each example"
    )


UNSEEN_DRAWS = (
    "the program draws random numbers, and no step of it was seen, so that one device draws others. A step is seen "
    "where the main thread calls a tf.function that trains"
)


def differs_by_numbers(verdict: Verdict) -> bool:
    """Whether nothing is wrong but what is computed."""
    broken = {law.law for law in verdict.judgements if law.status == "broken"}
    return bool(broken) and broken <= {OF_VARIABLES, *_COMPUTED}


def reported(trace: RunTrace) -> list[object]:
    """All that a program has reported, to be compared bit for bit."""
    steps = [step for client in trace.clients for step in client.steps]
    return [(step.loss, step.gradients, step.variables, step.metrics) for step in steps]


def unfollowed(verdict: Verdict, evidence: RunEvidence, error: str) -> str | None:
    """Why a verdict by one device that follows nothing is not to be believed: it draws other numbers; else None.

    Args:
        verdict: by that device.
        evidence: of the run.
        error: why one device failed with what the run had.
    """
    if not differs_by_numbers(verdict) or not any(evidence.step(1).draws()):
        return None
    return (
        "the run differs from one device, which draws other random numbers, and with those of the run one device "
        f"fails: {error}"
    )


def _changed(evidence: RunEvidence) -> list[str]:
    """The variables that hold something else as the second step begins, and that nobody reports."""
    one, other = (
        {
            numbered(held.name, held.number): [reader.array(copy).tobytes() for copy in held.copies]
            for reader, held in evidence.step(index).held
        }
        for index in (1, 2)
    )
    return [name for name, copies in one.items() if other.get(name, copies) != copies]


def leaves_out_steps(reference: RunTrace) -> bool:
    """Whether one replica could not compute some steps: of these it says nothing, though others may be right."""
    return any(seen.apart is not None for seen in reference.clients[0].seen)


_AVERAGED = (
    "replicas average what follows from draws of their own, which varies less than what follows from one draw: too "
    "little of noise that hides examples"
)
_PASSED = "what the program reports is other than one device's, and is not judged, since each replica has its own: {}"


def settled(verdict: Verdict, again: Verdict, own: Sequence[str], reference: RunTrace) -> Verdict:
    """The verdict by one replica, with what that by several says of the variables.

    Args:
        verdict: the former.
        again: the latter.
        own: the sources.
        reference: the one replica, of which it is no longer told what it could not compute.
    """
    of_variables = next((law for law in again.judgements if law.law == OF_VARIABLES), None)
    if of_variables is None or of_variables.status == "not_judged":
        return verdict
    if of_variables.status == "broken" and verdict.outcome == "inconsistent":
        return verdict
    reason = f"each replica computes from what it has for itself: {'; '.join(own)}"

    by_law = {law.law: law for law in again.judgements}

    def said(law: Judgement) -> Judgement:
        if law.law in _BY_SEVERAL:
            return by_law.get(law.law, law)
        if law.law in _COMPUTED and law.status != "held":
            return Judgement(law.law, "not_judged", reason)
        return law

    condition = Condition(OWN, f"that each replica has its own {' and '.join(own)}")
    whole = completed([reference]).traces[0]
    notes = [note for note in verdict.notes if note not in told(steps_with_other_draws(whole), whole)]
    if of_variables.status == "held" and lines_of_draws(reference, "own"):
        notes.append(_AVERAGED)
    if passed := [law.law for law in verdict.judgements if law.law in _COMPUTED and law.status == "broken"]:
        notes.append(_PASSED.format(", ".join(passed)))
    return replace(
        verdict,
        judgements=tuple(map(said, verdict.judgements)),
        conditions=(*verdict.conditions, condition),
        abstained=not_finite(reference, whole),
        explanation=None if of_variables.status == "held" else verdict.explanation,
        closest=None,
        alone=None,
        notes=tuple(notes),
    )
