"""Which parts of examples belong together: those that one device puts together however it draws.

Features and labels do; a labelled example and an unlabelled one beside it do not, nor an example and a negative one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from harness.evidence.counters import PartMix
from harness.evidence.trace import RunTrace

_LOOSE = 0.1
"""Of the examples that both times are known, those of which one device draws another part."""


def has_mixes(reference: RunTrace) -> bool:
    """Whether the run was seen to mix parts, as far as what one device has put together tells."""
    total = reference.clients[0].counters.all_examples
    return total is not None and bool(total.mixes)


def with_ties(reference: RunTrace, again: RunTrace) -> RunTrace:
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
