"""Examples that one device draws otherwise: whether draws are all that makes them differ.

A run in which the functions of all datasets draw one and the same number answers. Where it does not, because an order
is drawn as well or other things than operations of TensorFlow draw, one device is asked what it draws another time.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

from harness.evidence.trace import RunTrace
from harness.evidence.witness_values import rows_of
from harness.judging.conditions import DRAWN_DATA, Condition, shown
from harness.judging.laws.protocol import not_judged
from harness.judging.verdict import Verdict

_EXAMPLES = "examples_match_reference"
_DATA = (_EXAMPLES, "rows_whole", "examples_in_turn")
_SIGMAS = 4.0
_CHANCE = 0.01
"""What is as rare by chance alone is not taken for chance: nobody is accused of it."""
_OTHER = "the run was given examples that one device is not given"
FIXED = (
    "which examples replicas are given was judged by another run, in which all datasets draw one and the same number"
)
NATIVE = "which examples replicas are given was judged by what the script reads that is told of one replica"


def is_of_examples(verdict: Verdict) -> bool:
    """Whether nothing is wrong but which examples there are."""
    return {law.law for law in verdict.judgements if law.status == "broken"} == {_EXAMPLES}


def draws_in_data(run: RunTrace) -> bool:
    """Whether functions of datasets draw."""
    return any(client.counters.dataset_draws for client in run.clients)


def is_settled(fixed: Verdict) -> bool:
    """Whether a verdict on a run with fixed draws knows its examples: they are one device's, or they are wrong."""
    return _is_wrong(fixed) or all(each.code != DRAWN_DATA for each in fixed.conditions)


def _is_wrong(fixed: Verdict) -> bool:
    return any(law.law in _DATA and law.status == "broken" for law in fixed.judgements)


def comes_again(verdict: Verdict) -> bool:
    """Whether examples came again before others had come once."""
    return any(law.law == "examples_in_turn" and law.status == "broken" for law in verdict.judgements)


def with_data_of(verdict: Verdict, fixed: Verdict, note: str) -> Verdict:
    """A verdict with what another one, such as that on a run with fixed draws, says of its examples."""
    if not _is_wrong(fixed):
        return verdict
    known = {law.law: law for law in fixed.judgements if law.law in _DATA}
    laws = tuple(known.get(law.law, law) for law in verdict.judgements)
    more = tuple(law for name, law in known.items() if all(name != each.law for each in verdict.judgements))
    told = dataclasses.replace(verdict, judgements=(*laws, *more), notes=(*verdict.notes, note))
    return dataclasses.replace(told, explanation=fixed.explanation, closest=fixed.closest, ledger=fixed.ledger)


def with_drawn_counts(verdict: Verdict, run: RunTrace, reference: RunTrace, again: RunTrace) -> Verdict:
    """A verdict by which only the examples are other ones, where one device has as many others by other seeds.

    So it is where a shuffle stands behind `repeat` and the run ends within an epoch.

    Args:
        verdict: on the run.
        run: which was judged.
        reference: which followed it.
        again: that with other seeds and on another day.
    """
    found, chance = _excess(run, reference), _excess(again, reference)
    if not chance or found > chance + _SIGMAS * chance**0.5:
        return verdict
    why = "which examples come, and how often, is drawn: one device has others too by other seeds"
    laws = tuple(not_judged(law.law, why) if law.law == _EXAMPLES else law for law in verdict.judgements)
    condition = Condition(
        DRAWN_DATA, f"the run's own examples, of which {found} come more often than on one device, as drawn"
    )
    return dataclasses.replace(verdict, judgements=laws, conditions=(*verdict.conditions, condition))


def _excess(trace: RunTrace, reference: RunTrace) -> int:
    """How many examples it has that the reference has not, or not as often."""
    ours, theirs = (
        Counter(number for client in each.clients for seen in client.seen for number in rows_of(seen))
        for each in (trace, reference)
    )
    return (ours - theirs).total()


def comes_twice(run: RunTrace, reference: RunTrace, again: RunTrace) -> str | None:
    """Why the run's examples are not one device's: more of them come twice than chance would have it; else None.

    So it is where each worker reads all of the data, and the run ends before that has come once: nobody then knows
    whether an example that comes again would have come. One device tells how often that is, by two orders.

    Args:
        run: which was judged.
        reference: which followed it.
        again: that with other seeds and on another day.
    """
    found, *others = (_twice(trace) for trace in (run, reference, again))
    if len({rows for rows, _ in (found, *others)}) > 1:
        return None
    (rows, ours), theirs = found, [count for _, count in others]
    total, share = ours + sum(theirs), 1 / (1 + len(theirs))
    chance = sum(math.comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(ours, total + 1))
    if ours <= max(theirs) or chance > _CHANCE:
        return None
    return (
        f"of {rows} examples that replicas were given {ours} had come before, and of one device's "
        f"{' and '.join(str(each or 'none') for each in theirs)}, by two orders: workers may read the same data, each "
        "in an order of its own. Shard before you shuffle, or give all workers one seed; more steps tell for certain"
    )


def _twice(trace: RunTrace) -> tuple[int, int]:
    """How many examples a run has, and how many of them had come before."""
    rows = [number for client in trace.clients for seen in client.seen for number in rows_of(seen)]
    return len(rows), len(rows) - len(set(rows))


def not_drawn(reference: RunTrace, again: RunTrace) -> str | None:
    """Why the run's examples are other ones by more than what was drawn; None if that may be all.

    Args:
        reference: which followed the run.
        again: that with other seeds and on another day.
    """
    if lines := tuple(filter(None, reference.clients[0].counters.tables)):
        return f"{_OTHER}: they may follow from a table, which the training writes ({shown(lines)})"
    first, other = (trace.clients[0].counters.all_examples for trace in (reference, again))
    if first is None or other is None or not first.number or first.number != other.number:
        return None
    if lines := tuple(filter(None, reference.clients[0].counters.by_replica)):
        return (
            f"{_OTHER}: the program makes them for each replica by its number ({shown(lines)}). Make them once for the "
            "global batch and give each replica its rows, or draw them within the step"
        )
    return (
        f"{_OTHER} however it draws: they follow from something that one device has not, such as a worker's number, "
        "`take` after `shard`, a table, a queue or a number in Python. Give each worker its rows of what one device "
        "reads, keep what they follow from in a variable, or report the ids of examples with `record`. Workers that "
        "read files of their own may make other examples of them: try `AutoShardPolicy.DATA`"
    )
