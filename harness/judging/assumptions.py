"""Of an unmodified script: where its reference rests on something that may be otherwise, and what then can be said.

A right script must not be accused. So where a run differs and the reference has answered something of which it is not
certain that it means the same for one replica, nothing is said, and the lines are named with what would settle it.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Literal

from harness.evidence.parts import Parts
from harness.evidence.stand_ins import BY_HAND, COUNT, DIVIDES_WHOLE, ENDLESS, WORKERS, StandIn
from harness.evidence.trace import RunTrace
from harness.evidence.witness_values import rows_of
from harness.judging.batch_of_average import average_of_one_replica, told_batch_finding
from harness.judging.closures_script import SERVERS, SingleWorkerScript, not_comparable, why_not_judged, wrong_together
from harness.judging.conditions import COUNTED, OWN, OWN_SHARES, SHUFFLED, Condition
from harness.judging.drawn_data import comes_again
from harness.judging.laws.protocol import Finding
from harness.judging.native_scale import SCALED, NativeRun, times_of
from harness.judging.resumed_script import (
    began_alike,
    cannot_be_known,
    in_parts,
    is_computed,
    never_went_on,
    why_it_may_differ,
)
from harness.judging.unsteady_runs import differs_by_counts
from harness.judging.verdict import Verdict, broken_by
from harness.subject.script import Updates
from harness.subject.strategies import has_servers

_ASSUME = "If you know what it means for one replica, say so with --assume FILE:LINE=1 (what is divided is a part of a "
_ASSUME += "sum over replicas) or =R (it is a size)"
_RECORD = "or verify the training as a function with `record`"
_IS_ONE = "is 1 in that: it cannot be known what it means for one replica"
_UNCHECKED = (
    "the numbers are those of its reference, but the script depends on the number of replicas or workers, and it could "
    "not be checked whether each of them contributes its share: at step 1 no replica has the examples, or takes the "
    "gradients, that the script has on one device. So a loss that is divided by the batch of one replica, or a batch "
    "that each replica reads whole, would not be found. Write the batch as a number, say what the count of replicas is "
    f"with --assume FILE:LINE={{1}}, where {{0}}, {_RECORD}"
)
_OTHER_STEPS = (
    "the script computes other steps as it is on one device, of the same examples, although each replica contributes "
    "its share to their sums: what is divided by {} may be divided twice. " + f"{_ASSUME}, {_RECORD}"
)
_OWN_DRAWS = (
    "each replica has numbers of its own that one device has not, such as noise for a gradient, and there is {}: what "
    f"they are meant to add up to cannot be known. Draw them once for all replicas, {_RECORD}"
)
_OWN_PARTS = (
    "the run takes another number of steps than its reference, and each worker reads a part of the examples by its "
    "number: whether these parts are all of them, each once, cannot be known. Leave sharding to "
    f"strategy.experimental_distribute_dataset or to an InputContext, {_RECORD}"
)
ByOne = Literal["", "computes", "ends"]
"""What one device does otherwise: nothing, other numbers, or it ends after another number of steps."""

_EXAMPLES = "examples_match_reference"
_COUNTS = (COUNT, WORKERS)
_NUMBER = re.compile(r"-?[\d.]+(e[+-]?\d+)?")


def with_assumptions(
    verdict: Verdict,
    run: RunTrace,
    reference: RunTrace,
    replicas: int,
    parts: Parts | None = None,
    *,
    returned: bool = False,
    updates: Updates | None = None,
    alone: Callable[[], SingleWorkerScript] = SingleWorkerScript,
    natively: Callable[[], NativeRun] = NativeRun,
    whatever: Callable[[Sequence[StandIn]], bool] = lambda lines: False,
    by_one: Callable[[Sequence[StandIn]], ByOne] = lambda lines: "",
    divided: Callable[[], Sequence[str]] = lambda: (),
    by_one_worker: Callable[[], bool] = lambda: False,
) -> Verdict:
    """The verdict with notes on what the reference was told, and without a judgement where that decides.

    Args:
        verdict: on the script.
        run: what its clients have left.
        reference: what the script has left that was run as its own reference.
        replicas: of the run, in sync.
        parts: of a run that was disturbed, of which `run` is the first then.
        returned: whether a worker of a coordinator has come back in a part.
        updates: what the user says that closures of a coordinator are.
        alone: tells what a script with a coordinator leaves with a single worker.
        natively: tells what is known from the script as it is on one device, where what that number means decides.
        divided: tells at which lines the script divides by a number that it has a name for, and that is the number of
            replicas.
        whatever: tells whether a run differs from one replica whatever the number of replicas means at these lines.
        by_one: tells what one device does otherwise with 1 at these lines.
        by_one_worker: tells whether a script with a coordinator computes the same with a single worker.
    """
    again = parts is not None and in_parts(parts)
    counters = reference.clients[0].counters
    told = counters.stand_ins
    notes = [*verdict.notes, *_listed(told)]
    if counters.cut is not None:
        notes.append(f"judged are the first {counters.cut} steps, after which the script was ended; see --first")
    if has_servers(run.header.strategy):
        verdict = dataclasses.replace(verdict, notes=(*notes, SERVERS))
        verdict = _of_closures(verdict, run, reference, alone, parts if again else None, returned, updates)
        return _with_count(verdict, [each for each in told if _is_repeated(each)], False, by_one_worker)
    verdict = dataclasses.replace(verdict, notes=tuple(notes))
    if verdict.outcome == "inconsistent" and (found := _otherwise(verdict, told, natively)) is not None:
        return found
    if why := _of_named_count(verdict, run, reference, replicas, divided):
        return without_judgement(verdict, why)
    of_scale = [] if _have_read_again(verdict) else list(_of_scale(verdict, run, reference, replicas, natively))
    if of_scale and (found := natively().verdict) is not None:
        return found
    if of_scale and (wrong := _told_batch(verdict, run, natively)) is not None:
        return broken_by(verdict, [wrong])
    if of_scale and not _stands(verdict, told, whatever):
        return without_judgement(verdict, of_scale[0])
    reasons = _reasons_of(verdict, run, reference, parts if again else None)
    if (why := next(chain.from_iterable(reasons), None)) is not None:
        return without_judgement(verdict, why)
    return _with_count(verdict, *_meant(verdict, told, run, by_one), lambda: natively().verdict is not None)


def _otherwise(verdict: Verdict, told: Sequence[StandIn], natively: Callable[[], NativeRun]) -> Verdict | None:
    """What is said instead of an inconsistent verdict, where the script as it is on one device may do what the run did.

    So it may where replicas have numbers of their own, and where no mistake explains what differs, or only counts do:
    that may follow from a number which one device has not, such as a worker's share of the examples.
    """
    own = any(each.code == OWN for each in verdict.conditions)
    counts = differs_by_counts(verdict) and not _have_read_again(verdict)
    if not told or not (own or ((verdict.explanation is None or counts) and any(map(_is_repeated, told)))):
        return None
    if (found := natively().verdict) is not None:
        parts_apart = counts and any(each.code == OWN_SHARES for each in found.conditions)
        return without_judgement(verdict, _OWN_PARTS) if parts_apart else found
    counted = [each for each in told if each.what.startswith(_COUNTS) and each.taken == "1"]
    return without_judgement(verdict, _OWN_DRAWS.format(_places(counted))) if own and counted else None


def _of_named_count(
    verdict: Verdict, run: RunTrace, reference: RunTrace, replicas: int, divided: Callable[[], Sequence[str]]
) -> str | None:
    """Why a run that takes as many times its reference's gradients as it has replicas may be right; else None."""
    times = times_of(run, reference, replicas) if verdict.outcome == "inconsistent" else None
    if times is None or replicas < 2 or abs(times - replicas) > SCALED or not (lines := divided()):
        return None
    return (
        f"the script divides at {', '.join(lines)} by {replicas}, which it has a name for, and which is the number of "
        "replicas: if that is meant, one device would divide by 1. Write strategy.num_replicas_in_sync there, and "
        "verify again"
    )


def _meant(
    verdict: Verdict, told: Sequence[StandIn], run: RunTrace, by_one: Callable[[Sequence[StandIn]], ByOne]
) -> tuple[Sequence[StandIn], bool]:
    """Where one device may have another number, as for a rate; and whether it ends elsewhere, after the run's steps."""
    many = [each for each in told if each.taken != "1"]
    meant = [each for each in many if each.trust in ("meant", "unknown")]
    # A batch that is divided so is the run's whatever one device has; a number of steps is not.
    whole = [each for each in many if each.what.endswith(DIVIDES_WHOLE)]
    # So is a product that the batches are made of; one that none of them has may be what steps are counted by.
    whole += [each for each in many if each.product and not any(batch % each.product == 0 for batch in _batches(run))]
    found = by_one(whole) if whole and verdict.outcome == "consistent" else ""
    return [*meant, *whole] if found else meant, found == "ends"


def _with_count(verdict: Verdict, meant: Sequence[StandIn], ends: bool, natively: Callable[[], bool]) -> Verdict:
    """The verdict, given that a number of replicas is meant, where one device computes something else with its own.

    Args:
        verdict: on the script.
        meant: where one device may have another number, as for a rate.
        ends: whether it ends elsewhere by that, after the run's steps.
        natively: tells whether the script computes the same as it is on one device.
    """
    if verdict.outcome != "consistent" or not meant or (not ends and natively()):
        return verdict
    condition = Condition(
        COUNTED,
        "that the number of replicas or workers is meant, which is 1 on one device: "
        f"{_places(meant)} is {meant[0].taken}",
    )
    return dataclasses.replace(verdict, conditions=(*verdict.conditions, condition))


def _told_batch(verdict: Verdict, run: RunTrace, natively: Callable[[], NativeRun]) -> Finding | None:
    """That the script has told TensorFlow of the batch of one replica, of a run that contributes as many times more."""
    told, factor = average_of_one_replica(run), natively().factor
    if verdict.outcome != "consistent" or told is None or factor is None:
        return None
    average, count = told
    return told_batch_finding(average, factor) if abs(factor - count) <= SCALED else None


def _stands(verdict: Verdict, told: Sequence[StandIn], whatever: Callable[[Sequence[StandIn]], bool]) -> bool:
    """Whether what was found stands, though it is not known what the number of replicas means somewhere."""
    doubtful = [each for each in told if each.trust in ("assumed", "unknown", "size")]
    counts = all(each.what.startswith(_COUNTS) for each in doubtful)
    return verdict.outcome == "inconsistent" and bool(doubtful) and counts and whatever(doubtful)


def _have_read_again(verdict: Verdict) -> bool:
    """Whether workers read the same, whatever a number means: of these examples one device computes the same."""
    return verdict.outcome == "inconsistent" and differs_by_counts(verdict) and comes_again(verdict)


def _of_scale(
    verdict: Verdict, run: RunTrace, reference: RunTrace, replicas: int, natively: Callable[[], NativeRun]
) -> Iterator[str]:
    """Why it is not known whether each replica contributes its share, and no more."""
    told = reference.clients[0].counters.stand_ins
    sizes = [each for each in told if each.trust == "size"]
    unknown = [each for each in told if each.trust == "unknown"]
    unknown += sizes if verdict.outcome == "inconsistent" else []
    of_unknown = f"{_places(unknown)}: it cannot be known what that means for one replica. {_ASSUME}, {_RECORD}"
    if verdict.outcome == "consistent":
        # What is done as often as there are replicas contributes nothing that could tell, such as an average.
        if counted := [each for each in told if each.trust == "assumed" and _is_repeated(each)]:
            yield f"{_places(counted)}: one device may do that once, or as often. {_ASSUME}, {_RECORD}"
        factor = natively().factor if unknown or any(map(_is_size, told)) else 1.0
        # What each replica contributes may be what one device computes, so that it was taken for the right number.
        if unknown and not _is_share(factor):
            yield of_unknown
        if factor is not None and not _is_share(factor):
            yield _grows(factor)
        elif sizes and natively().differs:
            yield _OTHER_STEPS.format(_places(sizes))
        if factor is None and (sizes := [each for each in told if _is_size(each)]):
            yield _UNCHECKED.format(_places(sizes), replicas)
        return
    if unknown:
        yield of_unknown
    if verdict.outcome == "inconsistent":
        if all(each.code != OWN for each in verdict.conditions):  # else it was asked
            yield from _assumed(told)
        first = verdict.first_divergence
        begins = first is not None and first.observable == "start"  # then no step has been scaled yet
        times = None if begins else times_of(run, reference, replicas)
        if times is not None and not _is_share(times):
            factor = natively().factor
            if factor is None or _is_share(factor):
                yield from _misled(times, certain=factor is not None)


def _is_share(factor: float | None) -> bool:
    """Whether what replicas contribute is known, and as much as it should be."""
    return factor is not None and abs(factor - 1.0) <= SCALED


def _reasons_of(verdict: Verdict, run: RunTrace, reference: RunTrace, parts: Parts | None) -> Iterator[Iterator[str]]:
    """Why nothing is said for other reasons; `parts` are those of a run that was started again."""
    told = reference.clients[0].counters.stand_ins
    if parts is not None:
        yield _endless(reference)
    if verdict.outcome == "consistent":
        yield _of_consistent(verdict, told, again=parts is not None)
    if verdict.outcome == "inconsistent":
        yield from _of_inconsistent(verdict, run, reference, told, parts)


def _of_inconsistent(
    verdict: Verdict,
    run: RunTrace,
    reference: RunTrace,
    told: Sequence[StandIn],
    parts: Parts | None,
) -> Iterator[Iterator[str]]:
    """Why a run in which something was found may be right; `parts` are those of one that was started again."""
    if parts is not None:
        yield why_it_may_differ(verdict, parts, reference)
    if (parts is None or not began_alike(run, reference)) and not is_computed(verdict, again=parts is not None):
        yield _reasons(verdict, run, reference, told)


def _of_closures(
    verdict: Verdict,
    run: RunTrace,
    reference: RunTrace,
    alone: Callable[[], SingleWorkerScript],
    parts: Parts | None,
    returned: bool,
    updates: Updates | None,
) -> Verdict:
    """The verdict on a script with a coordinator; `parts` are those of one that was started again."""
    if verdict.outcome == "abstained":
        return verdict
    runs = [run] if parts is None else [*(part.trace for part in parts.earlier), parts.last]
    if (why := next(_not_of_closures(verdict, runs, reference, parts, returned=returned), None)) is not None:
        return without_judgement(verdict, why)
    if verdict.outcome == "inconsistent":
        return verdict
    known = alone()
    if parts is None and (found := tuple(wrong_together(run, known, updates))):
        return broken_by(verdict, found)
    why = next(why_not_judged(runs, known, updates), None)
    return verdict if why is None else without_judgement(verdict, why)


def _not_of_closures(
    verdict: Verdict, runs: Sequence[RunTrace], reference: RunTrace, parts: Parts | None, *, returned: bool
) -> Iterator[str]:
    """Why nothing is said of a script with a coordinator."""
    if verdict.outcome == "inconsistent":
        yield from _assumed(reference.clients[0].counters.stand_ins)
    if parts is not None:
        yield from _endless(reference)
        if verdict.outcome == "inconsistent":
            yield from why_it_may_differ(verdict, parts, reference)
        if never_went_on(verdict, parts):
            return
    yield from not_comparable(verdict, runs, reference, returned=returned)


def _of_consistent(verdict: Verdict, told: Sequence[StandIn], *, again: bool) -> Iterator[str]:
    """Why a run in which nothing was found may be wrong."""
    if any(each.what == BY_HAND for each in told):
        yield from _not_compared(verdict)
    if again:
        yield from cannot_be_known(verdict)


def _not_compared(verdict: Verdict) -> Iterator[str]:
    """Why it is not known that workers have read the shards that the reference has read."""
    if not any(law.law == _EXAMPLES and law.status == "held" for law in verdict.judgements):
        yield f"data is sharded by hand, and the examples of workers could not be compared; see the notes, {_RECORD}"


def _endless(reference: RunTrace) -> Iterator[str]:
    """Why it is not known which steps a process had done when it was killed."""
    if ENDLESS in reference.clients[0].counters.unseen:
        yield f"not seen: {ENDLESS}, so that it is not known which steps it had done when it was killed; {_RECORD}"


def _assumed(told: Sequence[StandIn]) -> Iterator[str]:
    """What one replica does in a way of its own."""
    assumed = [each for each in told if each.trust == "assumed"]
    if assumed and all(each.what.startswith(_COUNTS) for each in assumed):
        yield f"the run differs from its reference, and {_places(assumed)} {_IS_ONE}. {_ASSUME}, {_RECORD}"
    elif assumed:
        yield (
            f"the run differs from its reference, and {_places(assumed)}, which one replica does in a way of its own. "
            f"Make it the same for any number of replicas (no dropout, synchronized=True), {_RECORD}"
        )


def _reasons(verdict: Verdict, run: RunTrace, reference: RunTrace, told: Sequence[StandIn]) -> Iterator[str]:
    """Why a run that has computed rightly, of other examples than its reference reads itself, may be right."""
    broken = {law.law for law in verdict.judgements if law.status == "broken"}
    if _EXAMPLES in broken and _same_examples(run, reference):
        yield (
            "over all steps the run has seen the same examples as its reference, each as often, but not in the same "
            "steps, so that the numbers of a step cannot be compared: its workers order their shards by themselves. "
            "Shuffle before the data is sharded, with a seed, or not at all"
        )
    if _EXAMPLES in broken and _cause(verdict) == SHUFFLED:
        yield (
            "each worker shuffles all examples in an order of its own before they are sharded, since the shuffle has "
            "no seed, so that some examples come more often than others. That is right where a training only draws "
            "from them. Give the shuffle a seed, or shuffle after sharding, and verify again"
        )
    if _EXAMPLES in broken and len(run.clients) > 1 and _cause(verdict) is None:
        yield (
            "the run has seen other examples than its reference, and no known mistake reproduces them: its workers may "
            "shuffle their own shards. Shuffle before the data is sharded, with a seed, or not at all"
        )
    by_hand = any(each.what == BY_HAND for each in told)
    if _EXAMPLES in broken and by_hand and _cause(verdict) is None:
        yield (
            f"the run has seen other examples than its reference, and {_places(told, BY_HAND)}: the workers may order "
            f"their shards by themselves. Shuffle before the data is sharded, with a seed, or not at all, {_RECORD}"
        )
    if _EXAMPLES in broken and not by_hand and any(each.what == "TF_CONFIG" for each in told):
        yield (
            f"the run has seen other examples than its reference, and {_places(told, 'TF_CONFIG')}: if the script "
            "shards its data by the number of the worker, the reference has read one shard only. Leave sharding to "
            f"strategy.experimental_distribute_dataset or to an InputContext, {_RECORD}"
        )


def _cause(verdict: Verdict) -> str | None:
    """The mistake in the input pipeline that reproduces the examples which the run has seen."""
    return None if verdict.explanation is None else verdict.explanation.cause


def _is_repeated(told: StandIn) -> bool:
    """Whether the cluster's number of replicas was taken for a count, as of a loop."""
    return told.what.startswith(_COUNTS) and told.taken != "1"


def _is_size(told: StandIn) -> bool:
    """Whether what was answered depends on the size of the cluster."""
    return told.what.startswith(_COUNTS) or told.what in ("InputContext", "ValueContext", "TF_CONFIG")


def _misled(times: float, *, certain: bool) -> Iterator[str]:
    """Why it may be the reference that is wrong, of which the run's first gradients are so many times.

    Args:
        times: the number.
        certain: whether it is known that each replica contributes what it should.
    """
    if certain:
        yield (
            "the run adds up to what the script computes on one device, and its reference does not: it was told "
            "another number of replicas than it needs, divides by the examples of one replica, or gives all replicas "
            f"the same ones. {_ASSUME}, {_RECORD}"
        )
    elif times < 1.0:
        yield (
            f"what the replicas of the run add up to is {times:.4g} times what its reference computes: either the "
            "script divides once too often, or it divides by the number of examples of one replica, which in the "
            "reference has those of all. Divide by the global batch, with tf.nn.compute_average_loss(..., "
            "global_batch_size=...), and verify again"
        )


def _grows(factor: float) -> str:
    """Of a script that divides as its reference does, and by something that does not grow with the replicas."""
    if factor < 1.0:
        return (
            f"step 1 takes {factor:.4g} times what the script computes on one device, on average over the same "
            "examples. That is wrong if it divides twice by the number of replicas, and right if it multiplies by it a "
            f"batch that is written for one of them. Write the global batch, and verify again, {_RECORD}"
        )
    return (
        f"what the replicas add up to at step 1 is {factor:.4g} times what the script computes on one device, on "
        "average over the same examples. That is right if its loss is meant as a sum over examples, or if it divides "
        "by the replicas after something that hides it, such as a clip. It is wrong if it divides by the batch of one "
        "replica. Divide by the global batch, with tf.nn.compute_average_loss(..., global_batch_size=...), and verify "
        f"again; for a sum {_RECORD.removeprefix('or ')}"
    )


def without_judgement(verdict: Verdict, why: str) -> Verdict:
    """The verdict taken back, with a note on what differs first."""
    first = verdict.first_divergence
    notes = verdict.notes if first is None else (*verdict.notes, f"what differs first: {first.text}")
    return dataclasses.replace(
        verdict, abstained=why, judgements=(), explanation=None, closest=None, ledger=None, alone=None, notes=notes
    )


def _listed(told: Sequence[StandIn]) -> Iterator[str]:
    for text, taken in _at_lines(told).items():
        yield f"in the reference {text} is {' and '.join(taken)}"


def _places(told: Sequence[StandIn], what: str | None = None) -> str:
    return ", ".join(_at_lines([each for each in told if what is None or each.what == what]))


def _at_lines(told: Sequence[StandIn]) -> dict[str, dict[str, None]]:
    """What was answered, by what was asked for and where; of several numbers that were divided at a line the first."""
    asked: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for each in told:
        stem, _, last = each.what.rpartition(" ")
        known = asked.setdefault((each.where, stem if _NUMBER.fullmatch(last) else each.what), {})
        known.setdefault(each.what, {})[each.taken] = None
    return {
        f"{next(iter(whats))}{f' (and {len(whats) - 1} more)' if len(whats) > 1 else ''} at {where}": {
            taken: None for each in whats.values() for taken in each
        }
        for (where, _), whats in asked.items()
    }


def _batches(run: RunTrace) -> set[int]:
    """How many examples the steps of a run have, all its clients together."""
    found: Counter[int] = Counter()
    for client in run.clients:
        for seen in client.seen:
            found[seen.index] += sum(1 for _ in rows_of(seen))
    return {*found.values()} - {0}


def _same_examples(run: RunTrace, reference: RunTrace) -> bool:
    return _examples(run) == _examples(reference)


def _examples(trace: RunTrace) -> Counter[int]:
    seen = [seen for client in trace.clients for seen in client.seen]
    return Counter(number for each in seen for number in rows_of(each))
