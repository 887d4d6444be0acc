"""Where a reference is not finite: there it says nothing about a run, and nothing is judged."""

from __future__ import annotations

from harness.evidence.comparing import finite_elements, place, show
from harness.evidence.observed import OBSERVABLES, Observed, history
from harness.evidence.trace import RunTrace


def not_finite(reference: RunTrace, seen: RunTrace | None = None) -> str | None:
    """A sentence on the values of a reference that are NaN or infinite somewhere, the first of them by its place.

    A run that is compared with NaN can be neither right nor wrong: whatever it holds, NaN where it should be too, or a
    gradient times the number of replicas, looks the same.

    Args:
        reference: what was recorded.
        seen: the same with what was seen, of which only what nobody reported is looked at. Infinity there may be what
            a program begins with, such as the best loss so far; NaN is none.
    """
    found: list[tuple[int | None, int, str]] = []
    recorded = 0
    for rank, observable in enumerate(OBSERVABLES):
        reported = history(reference, observable)
        looked_at = reported if reported or seen is None else history(seen, observable)
        for step, values in looked_at.items():
            for name, value in values.items():
                recorded += 1
                if (text := _first(value, infinite=looked_at is reported)) is not None:
                    found.append((step, rank, f"{place(step, observable, name)}: {text}"))
    if not found:
        return None
    first = min(found, key=lambda one: (one[0] is None, one[0] or 0, one[1]))
    return (
        f"the reference itself is not finite in {len(found)} of {recorded} recorded values, so that nothing is judged "
        f"there; the first is {first[2]}"
    )


def _first(value: Observed, *, infinite: bool) -> str | None:
    import numpy as np

    wrong = ~finite_elements(value.array)
    if not infinite:
        wrong &= value.array != value.array
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    index = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    more = f" ({count} of {wrong.size} elements)" if wrong.size > 1 else ""
    return f"{show(value.array[index])}{more}"
