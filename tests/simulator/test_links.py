"""What a `Link` accepts, refuses and means; durations, sizes and rates."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import Cluster, Link, Topology, UsageError
from simulator.network.link import expand
from simulator.units import (
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)
from simulator.wire.network import Conditions

MIXED = Topology(chief=1, worker=2, ps=1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20ms", 0.02), ("1.5s", 1.5), ("300us", 3e-4), ("2m", 120.0), ("1h", 3600.0), ("0s", 0.0), (" 1s ", 1.0)],
)
def test_durations(text: str, seconds: float) -> None:
    """A number and a unit."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "count"), [("64KiB", 65536), ("100MB", 10**8), ("1B", 1), ("1.5kB", 1500), ("2GiB", 2**31), ("1GB", 10**9)]
)
def test_sizes(text: str, count: int) -> None:
    """Powers of ten and of two are told apart."""
    assert parse_size(text) == count


@pytest.mark.parametrize(("text", "rate"), [("100MB/s", 1e8), ("64KiB/s", 65536.0), ("1Gbit/s", 1.25e8)])
def test_rates(text: str, rate: float) -> None:
    """Bytes or bits a second."""
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "20", "ms", "-1s", "1 day", "1e3s", "20msx", 20, None, True])
def test_other_durations_are_refused(text: object) -> None:
    """A usage error names the accepted form, also for a bare number."""
    with pytest.raises(UsageError, match=r"20ms or 1\.5s"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "20", "1.5B", "1mb", "5MB/s", 7])
def test_other_sizes_are_refused(text: object) -> None:
    """A usage error names the accepted form, also for a part of a byte."""
    with pytest.raises(UsageError, match="64KiB or 100MB"):
        parse_size(text)


@pytest.mark.parametrize("text", ["0MB/s", "100MB", "1Tbit/s", 1.0])
def test_other_rates_are_refused(text: object) -> None:
    """A usage error names the accepted form, also for zero."""
    with pytest.raises(UsageError, match="100MB/s, 64KiB/s or 1Gbit/s"):
        parse_rate(text)


@given(st.integers(0, 10**9))
def test_a_size_that_is_written_can_be_read(number: int) -> None:
    """A formatted size parses to the same, to four digits."""
    assert parse_size(format_size(number)) == pytest.approx(number, rel=1e-3)


def test_conditions_in_seconds_and_bytes() -> None:
    """Every field reaches the relay in base units; what lasts until it is removed is infinite."""
    link = Link(src="worker", dst="ps", delay="20ms", jitter="5ms", rate="100MB/s", stall="2s", hold=True)
    assert link.conditions == Conditions(
        delay=0.02, jitter=0.005, jitter_kind="uniform", rate=1e8, stall=2.0, hold=math.inf
    )


def test_the_form_of_the_command_line() -> None:
    """`parse` and `str` are inverse; a bare flag is true; a count is a number."""
    text = "src=worker:*,dst=ps:0,delay=20ms,jitter=5ms,jitter_kind=pareto,rate=100MB/s"
    assert str(Link.parse(text)) == text
    link = Link.parse("src=*, dst=worker:1, hold, one_way=true, after_connections=3")
    assert link == Link(src="*", dst="worker:1", hold=True, one_way=True, after_connections=3)
    assert Link.parse(str(link)) == link


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dst=ps,delay=20ms", "needs src"),
        ("src=worker,delay=20ms", "needs dst"),
        ("src=workr,dst=ps,delay=20ms", "names no tasks; write worker:1, worker:0-31 or worker"),
        ("src=worker:x,dst=ps,delay=20ms", "names no tasks"),
        ("src=worker,dst=ps,latency=20ms", "has no 'latency'; it has src, dst, delay"),
        ("src=worker,src=ps,dst=ps,delay=20ms", "has src twice"),
        ("src=worker,dst=ps", "without a condition"),
        ("src=worker,dst=ps,one_way", "without a condition"),
        ("src=worker,dst=ps,delay=20", "delay '20' is not understood"),
        ("src=worker,dst=ps,delay", "delay True is not understood"),
        ("src=worker,dst=ps,rate=0MB/s", "above zero"),
        ("src=worker,dst=ps,hold=yes", "hold 'yes' is not understood"),
        ("src=worker,dst=ps,hold,one_way=1", "one_way='1' is neither"),
        ("src=worker,dst=ps,jitter=1ms,jitter_kind=gamma", "kinds are uniform, normal, pareto"),
        ("src=worker,dst=ps,delay=1ms,jitter_kind=normal", "needs jitter"),
        ("src=worker,dst=ps,hold,after_connections=0", "whole number from 1"),
        ("src=worker,dst=ps,hold,after_connections=x", "whole number from 1"),
        ("src=worker,dst=ps,hold,after_bytes=1", "after_bytes '1' is not understood"),
        ("src=worker,dst=ps,hold,after_bytes=0B", "met before it starts"),
        ("src=worker,dst=ps,hold,after_bytes=1B,after_connections=1", "give one of them"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, message: str) -> None:
    """Each mistake is a usage error that says what is accepted."""
    with pytest.raises(UsageError, match=message):
        Link.parse(text)


@pytest.mark.parametrize(
    ("pattern", "tasks"),
    [
        ("worker:1", ["worker:1"]),
        ("worker", ["worker:0", "worker:1"]),
        ("worker:*", ["worker:0", "worker:1"]),
        ("*", ["chief:0", "worker:0", "worker:1", "ps:0"]),
    ],
)
def test_patterns(pattern: str, tasks: list[str]) -> None:
    """One task, a job, or all."""
    assert list(expand(pattern, MIXED)) == tasks


def test_pairs_leave_out_a_task_and_itself() -> None:
    """Between workers there are two directed links, and none from a worker to itself."""
    assert Link(src="worker", dst="worker", hold=True).pairs(MIXED) == [
        ("worker:0", "worker:1"),
        ("worker:1", "worker:0"),
    ]


@pytest.mark.parametrize(
    ("src", "dst", "message"),
    [
        ("worker:2", "ps", "src=worker:2 matches no task on the network; there are chief:0, worker:0, worker:1, ps:0"),
        (
            "worker:0-2",
            "ps",
            "src=worker:0-2 reaches beyond worker:1, which is the last worker task; write worker:0-1,",
        ),
        ("worker", "evaluator", "dst=evaluator matches no task"),
        ("ps:0", "ps", "no link from ps:0 to ps"),
    ],
)
def test_links_that_do_not_exist_are_refused_before_anything_starts(src: str, dst: str, message: str) -> None:
    """A cluster is not even made with a link to a task that it does not have."""
    with pytest.raises(UsageError, match=message):
        Cluster(MIXED, links=[Link(src=src, dst=dst, delay="1ms")])


def test_the_text_of_the_command_line_is_no_link() -> None:
    """A forgotten `Link.parse` is said before anything starts."""
    with pytest.raises(UsageError, match="links are objects"):
        Cluster(Topology(worker=2), links=["src=*,dst=*,delay=1ms"])  # type: ignore[list-item]


def test_one_local_process_has_no_network() -> None:
    """Asking for a relay there is a usage error."""
    with pytest.raises(UsageError, match="one local process has no network"):
        Cluster(Topology(), relay=True)
