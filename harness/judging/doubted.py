"""Of an unmodified script: where its reference rests on something that may be otherwise, and what then can be said.

A right script must not be accused. So where a run differs and the reference has answered something of which it is not
certain that it means the same for one replica, nothing is said, and the lines are named with what would settle it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

from harness.evidence.trace import RunTrace, Seen, StandIn
from harness.judging.verdict import Verdict

__all__ = ["doubted"]

_ASSUME = "If you know what it means for one replica, say so with --assume FILE:LINE=1 (what is divided is a part of a "
_ASSUME += "sum over replicas) or =R (it is a size)"
_RECORD = "or verify the training as a function with `record`"
_NEAR = 1e-4
"""As large a relative error two sums of gradients may have that are said to be multiples; they have some digits of
float32 in common, and the factor is 2 at least.
"""


def doubted(verdict: Verdict, run: RunTrace, reference: RunTrace, replicas: int) -> Verdict:
    """The verdict with notes on what the reference was told, and without a judgement where that decides.

    Args:
        verdict: on the script.
        run: what its clients have left.
        reference: what the script has left that was run as its own reference.
        replicas: of the run, in sync.
    """
    counters = reference.clients[0].counters
    told = counters.stand_ins
    notes = [*verdict.notes, *_listed(told)]
    if counters.cut is not None:
        notes.append(f"judged are the first {counters.cut} steps, after which the script was ended; see --first")
    verdict = dataclasses.replace(verdict, notes=tuple(notes))
    if unknown := [each for each in told if each.trust == "unknown"]:
        text = f"{_places(unknown)}: it cannot be known what that means for one replica. {_ASSUME}, {_RECORD}"
        return _abstained(verdict, text)
    if verdict.outcome != "inconsistent":
        return verdict
    why = next(_reasons(verdict, run, reference, told, replicas), None)
    return verdict if why is None else _abstained(verdict, why)


def _reasons(
    verdict: Verdict, run: RunTrace, reference: RunTrace, told: Sequence[StandIn], replicas: int
) -> Iterator[str]:
    """Why a run that differs may be right."""
    if assumed := [each for each in told if each.trust == "assumed"]:
        yield (
            f"the run differs from its reference, and {_places(assumed)}, which one replica does in a way of its own. "
            f"Make it the same for any number of replicas (no dropout, synchronized=True), {_RECORD}"
        )
    broken = {law.law for law in verdict.judgements if law.status == "broken"}
    if "examples_match_reference" in broken and _same_examples(run, reference):
        yield (
            "over all steps the run has seen the same examples as its reference, each as often, but not in the same "
            "steps, so that the numbers of a step cannot be compared: its workers order their shards by themselves. "
            "Shuffle before the data is sharded, with a seed, or not at all"
        )
    if "examples_match_reference" in broken and any(each.what == "TF_CONFIG" for each in told):
        yield (
            f"the run has seen other examples than its reference, and {_places(told, 'TF_CONFIG')}: if the script "
            "shards its data by the number of the worker, the reference has read one shard only. Leave sharding to "
            f"strategy.experimental_distribute_dataset or to an InputContext, {_RECORD}"
        )
    if _divided(run, reference, replicas):
        yield (
            f"what the replicas of the run add up to is its reference's divided by {replicas}, the number of replicas: "
            "either the script divides by it once too often, or it divides by the number of examples of one replica, "
            "which in the reference has those of all. Divide by the global batch, with "
            "tf.nn.compute_average_loss(..., global_batch_size=...), and verify again"
        )


def _abstained(verdict: Verdict, why: str) -> Verdict:
    first = verdict.first_divergence
    notes = verdict.notes if first is None else (*verdict.notes, f"what differs first: {first.text}")
    return dataclasses.replace(
        verdict, abstained=why, judgements=(), explanation=None, closest=None, ledger=None, alone=None, notes=notes
    )


def _listed(told: Sequence[StandIn]) -> Iterator[str]:
    by_line: dict[tuple[str, str], dict[str, None]] = {}
    for each in told:
        by_line.setdefault((each.where, each.what), {})[each.taken] = None
    for (where, what), taken in by_line.items():
        yield f"in the reference {what} at {where} is {' and '.join(taken)}"


def _places(told: Sequence[StandIn], what: str | None = None) -> str:
    found = dict.fromkeys(f"{each.what} at {each.where}" for each in told if what is None or each.what == what)
    return ", ".join(found)


def _same_examples(run: RunTrace, reference: RunTrace) -> bool:
    return _examples(run) == _examples(reference)


def _examples(trace: RunTrace) -> Counter[int]:
    seen = [seen for client in trace.clients for seen in client.seen]
    return Counter(number for each in seen for rows in each.examples or () for number in rows)


def _divided(run: RunTrace, reference: RunTrace, replicas: int) -> bool:
    """Whether what leaves the run's reductions, or its replicas' gradients together, are the reference's divided."""
    first = [next(iter(client.seen), None) for client in (*run.clients, *reference.clients)]
    *clients, truth = [each for each in first if each is not None]
    if len(clients) < len(run.clients):
        return False
    reduced = _norms(clients[0], "reduced"), _norms(truth, "reduced")
    parts = _summed(clients), _summed([truth])
    return any(_is_multiple(mine, theirs, replicas) for mine, theirs in (reduced, parts))


def _norms(seen: Seen, what: str) -> list[float]:
    import numpy as np

    return [float(np.linalg.norm(part.numpy().astype("f8"))) for value in getattr(seen, what) for part in value.parts]


def _summed(clients: Sequence[Seen]) -> list[float]:
    import numpy as np

    columns = zip(*(each.gradients for each in clients), strict=False)
    return [
        float(np.linalg.norm(sum(part.numpy().astype("f8") for value in values for part in value.parts)))
        for values in columns
    ]


def _is_multiple(mine: Sequence[float], truth: Sequence[float], replicas: int) -> bool:
    """Whether the truth is so many times mine, in each of them that is not zero."""
    if not mine or len(mine) != len(truth) or not any(truth):
        return False
    return all(abs(one * replicas - other) <= _NEAR * other for one, other in zip(mine, truth, strict=True))
