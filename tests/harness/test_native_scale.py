"""What is known of the scale of a step from the script as it is on one device."""

from __future__ import annotations

import pytest

from harness.evidence.trace import Array, ClientTrace, Header, RunTrace, Seen, Value
from harness.judging.native_scale import adds_up, factor_given


def _step(*parts: float, reduced: float | None = None, also: float = 1.0) -> Seen:
    """One in which each local replica took a gradient of two elements, and something was reduced."""
    taken = tuple(Array.of([part, also * part]) for part in parts)
    sums = () if reduced is None else (Value("", (Array.of([reduced, also * reduced]),)),)
    return Seen(1, 0.0, gradients=(Value("w", taken, per_replica=True),), reduced=sums)


def _run(*steps: Seen) -> RunTrace:
    return RunTrace((ClientTrace(Header("local:0", 0, "mirrored-2", 2, 2, 1, 20), seen=steps),))


@pytest.mark.parametrize(
    ("steps", "linear"),
    [
        ([_step(1.0, 2.0, reduced=3.0)], True),
        ([_step(1.0, 2.0, reduced=1.5)], True),  # their mean
        ([_step(1.0, 2.0, reduced=2.5)], False),  # something was done to one of them before
        ([_step(1.0, 2.0)], False),  # nobody knows what was reduced
        ([_step(1.0, 2.0), _step(2.0, 1.0, reduced=6.0)], True),  # of two steps
        ([_step(1.0, 2.0), _step(2.0, 1.0, reduced=4.0)], False),
        ([_step(1.0, 2.0, reduced=3.0), _step(1.0, 2.0, reduced=2.5)], False),
    ],
)
def test_replicas_do_nothing_by_themselves_where_gradients_add_up(steps: list[Seen], linear: bool) -> None:
    """At every step, to a multiple of what one device takes, and reduced as they were taken, or accumulated."""
    one = _run(*(_step(4.0) for _ in steps))
    assert adds_up(_run(*steps), one, 2) is linear
    if linear:
        assert not adds_up(_run(*steps), _run(*(_step(4.0, also=1.1) for _ in steps)), 2)


@pytest.mark.parametrize(
    ("run", "native", "factor"),
    [
        (_step(1.0, 3.0, reduced=4.0), _step(4.0), 1.0),
        (_step(1.0, 3.0, reduced=4.0), _step(2.0), 2.0),
        (_step(1.0, 3.0, reduced=2.0), _step(1.0, 3.0), 1.0),  # the mean of steps on the rows of each
        (_step(1.0, 3.0, reduced=4.0), _step(1.0, 3.0), 2.0),
        (_step(1.0, 3.0), _step(4.0), None),
        (_step(1.0, 3.0, reduced=2.5), _step(4.0), None),
    ],
)
def test_what_replicas_contribute_is_known_where_it_is_reduced_as_it_was_taken(
    run: Seen, native: Seen, factor: float | None
) -> None:
    """Else what is divided in between may be what is wrong."""
    assert factor_given(_run(run), _run(native), 2) == (None if factor is None else pytest.approx(factor))
