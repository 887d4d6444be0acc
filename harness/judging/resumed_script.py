"""Of an unmodified script that was killed and started again: why it may be right although it differs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

from harness.evidence.parts import Parts
from harness.evidence.stand_ins import DRAWN
from harness.evidence.trace import RunTrace
from harness.judging.verdict import Verdict

_EXAMPLES, _IN_TURN, _VARIABLES = "examples_match_reference", "examples_in_turn", "variables_match_reference"


def in_parts(parts: Parts | None) -> bool:
    """Whether a script was started again."""
    return parts is not None and bool(parts.earlier or parts.must_resume)


def worded(verdict: Verdict) -> Verdict:
    """The verdict without `record.directory`, which a script does not have."""

    def said(text: str) -> str:
        return text.replace("record.directory", "a directory of its own")

    why = verdict.explanation
    return dataclasses.replace(
        verdict,
        explanation=None if why is None else dataclasses.replace(why, evidence=said(why.evidence), cure=said(why.cure)),
        judgements=tuple(dataclasses.replace(law, reason=said(law.reason)) for law in verdict.judgements),
    )


def cannot_be_known(verdict: Verdict) -> Iterator[str]:
    """Why a run in parts in which nothing is wrong is not judged."""
    if not any(law.law == _VARIABLES and law.status == "held" for law in verdict.judgements):
        yield (
            "what it had trained when it was killed could not be compared with what it went on from; see the notes, "
            "and verify the training as a function with `record`"
        )


def is_computed(verdict: Verdict, *, again: bool = False) -> bool:
    """Whether something else is wrong than which examples the run had.

    That replicas read the same is something else, unless the run was started again: then it may draw the same again.
    """
    given = (_EXAMPLES, _IN_TURN) if again else (_EXAMPLES,)
    return any(law.status == "broken" and law.law not in given for law in verdict.judgements)


def never_went_on(verdict: Verdict, parts: Parts) -> bool:
    """Whether a run that had seen the examples of its reference was started again and did no step more, as it should.

    Then there are no examples that could be other ones.
    """
    examples = next((law for law in verdict.judgements if law.law == _EXAMPLES), None)
    lost = verdict.outcome == "inconsistent" and not any(each.steps for each in parts.last.clients)
    return lost and examples is not None and examples.status == "not_judged" and examples.compared > 0


def why_it_may_differ(verdict: Verdict, parts: Parts, reference: RunTrace) -> Iterator[str]:
    """Why a run in parts that differs from its reference may be right.

    Args:
        verdict: which is inconsistent.
        parts: of the run.
        reference: of the whole of it.
    """
    found = verdict.interrupted
    later = parts.later or (parts.saves is not None and any(not event.restores for event in parts.saves.events))
    if found is not None and found["resumed_at"] == 0 and not parts.saved and later:
        yield (
            f"nothing had been saved when it was killed after step {found['at']}, so that it could only begin again. "
            "Kill it at a later step, after it has saved"
        )
    if is_computed(verdict, again=True):  # of the examples that the run had
        return
    laws = {law.law: law.status for law in verdict.judgements}
    if laws.get(_EXAMPLES, "not_judged") == "not_judged" and not never_went_on(verdict, parts):
        yield (
            "the run differs from its reference, and it is not known whether both have seen the same examples after it "
            "was started again; see the notes, or verify the training as a function with `record`"
        )
    told = reference.clients[0].counters
    drawn = [each.where for each in told.stand_ins if each.what == DRAWN]
    if laws.get(_EXAMPLES) == "broken" and (drawn or told.unseeded):
        places = f" ({', '.join(dict.fromkeys(drawn))})" if drawn else ""
        yield (
            f"it draws random numbers for its data{places}, and draws them anew when it is started again, so that the "
            "numbers of a step cannot be compared. Make its data from the number of the step, and verify again"
        )
    if laws.get(_EXAMPLES) == "broken" and _is_reordered(verdict, parts, reference):
        yield (
            "its data comes in another order in each epoch, and in yet another one after it was started again, so that "
            "the numbers of a step cannot be compared. Do not shuffle, or with reshuffle_each_iteration=False and a "
            "seed (in fit of arrays, shuffle=False), and verify again"
        )


def began_alike(first: RunTrace, reference: RunTrace) -> bool:
    """Whether the first part of a run has seen the examples of the reference, each in its step."""
    ours = _by_step(first)
    return bool(ours) and ours == _by_step(reference)[: len(ours)]


def _is_reordered(verdict: Verdict, parts: Parts, reference: RunTrace) -> bool:
    """Whether examples that differ can be those of an order that is drawn anew.

    Where the whole reference has seen each example as often, so should the run have.
    """
    truth = _by_step(reference)
    if not _is_shuffled(_in_order(reference)):
        return False
    counts = set(Counter(id_ for ids in truth for id_ in ids.elements()).values())
    if len(counts) > 1 or len(parts.earlier) != 1 or verdict.interrupted is None:
        return True
    kept = _by_step(parts.earlier[0].trace)[: verdict.interrupted["resumed_at"]]
    return sum([*kept, *_by_step(parts.last)], Counter()) == sum(truth, Counter())


def _by_step(run: RunTrace) -> list[Counter[int]]:
    """The examples of each step, of all clients together."""
    found: dict[int, Counter[int]] = {}
    for client in run.clients:
        for seen in client.seen:
            rows = (number for part in seen.examples or () for number in part)
            found.setdefault(seen.index, Counter()).update(rows)
    return [found[index] for index in sorted(found)]


def _in_order(run: RunTrace) -> list[int]:
    return [number for seen in run.clients[0].seen for part in seen.examples or () for number in part]


def _is_shuffled(ids: Sequence[int]) -> bool:
    """Whether the examples come in another order when they come again."""
    places: dict[int, int] = {}
    first: list[int] = []
    for place, id_ in enumerate(ids):
        if id_ in places:
            again = ids[place : place + len(first)]
            return list(again) != first[: len(again)]
        places[id_] = place
        first.append(id_)
    return False
