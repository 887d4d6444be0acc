"""Leases, clocks and versions of other machines, each without one."""

from __future__ import annotations

import io
import queue
import tarfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from simulator.machines.far import checks
from simulator.machines.far.checks import MachinesUnavailable, find_addresses, same_versions
from simulator.machines.far.clock import MachineClock, better, measured
from simulator.machines.far.lease import Lease, LeaseWatch
from simulator.machines.far.machine import FarMachine
from simulator.machines.local import facts
from simulator.site.main import Answering, SiteLease, reached
from simulator.wire.site import FromSite, Peer, Up

SHORT = Lease(every=0.01, silent=0.03, seconds=0.1, margin=0.1)


def _up(**changed: Any) -> Up:
    known: dict[str, Any] = {
        "host": "h",
        "cores": 2,
        "memory": 1,
        "python": facts.python_version(),
        "tensorflow": facts.tensorflow_version(),
        "code": facts.code_digest(),
        "addresses": (),
        "kernel": "one",
        "port": 1,
        "token": "t",
        "at": 0.0,
    }
    return Up(**{**known, **changed})


@pytest.mark.parametrize(("late", "error", "asked"), [(30, 0.0008, 31), (10**6, 0.005, 51)])
def test_a_machine_that_answers_late_for_a_while_is_asked_again(late: int, error: float, asked: int) -> None:
    """Up to half a second, and no longer than until the error is a millisecond."""
    now, times = 0.0, 0

    def ask() -> float:
        nonlocal now, times
        now += 0.01 if times < late else 0.0016
        times += 1
        return now

    clock = measured(ask, lambda: now)
    assert clock.error == pytest.approx(error)
    assert times == pytest.approx(asked, abs=1)


def test_a_clock_is_known_within_its_error() -> None:
    """Whatever way takes how long: the truth is within the bound, and the shortest exchange gives the least bound."""
    now = 0.0
    ways = iter([(0.4, 0.1), (0.001, 0.003), (0.1, 0.4)] * 4)
    offset = 1000.0

    def ask() -> float:
        nonlocal now
        there, back = next(ways)
        now += there
        said = now + offset
        now += back
        return said

    clock = measured(ask, lambda: now)
    assert clock.error == pytest.approx(0.002)
    assert abs(clock.offset - offset) <= clock.error
    assert abs(clock.offset - offset) > clock.error / 4
    assert MachineClock(1000.0, 0.0).here(1002.5) == 2.5


def test_what_was_known_of_a_clock_is_used_while_it_is_better() -> None:
    """For as long as clocks have not parted by more than answers have come late now."""
    known, again = MachineClock(1.0, 0.0005, 0.0), MachineClock(1.1, 0.001, 4.0)
    assert better(known, again, 4.0) is known
    assert better(known, MachineClock(1.1, 0.001, 6.0), 6.0) is not known
    assert better(known, MachineClock(1.0, 0.0005, 1.0), 1.0) is not known


def test_the_site_ends_its_tasks_before_the_run_gives_it_up() -> None:
    """Beats are heard, and no grant comes back, as on a cable that carries one way: the site ends first."""
    expired = threading.Event()
    lost: queue.SimpleQueue[tuple[str, float]] = queue.SimpleQueue()
    beats: queue.SimpleQueue[FromSite] = queue.SimpleQueue()
    watch = LeaseWatch(SHORT)
    began = time.monotonic()
    assert watch.heard()
    site = SiteLease(beats.put, expired.set, every=SHORT.every, seconds=SHORT.seconds)
    watch.begin(lambda why, at: lost.put((why, at)))
    assert expired.wait(10)
    assert lost.empty()
    why, at = lost.get(timeout=10)
    assert time.monotonic() - began >= SHORT.seconds + SHORT.margin
    assert "nothing was heard of it for 0.2 s" in why
    assert at < time.monotonic() - SHORT.seconds
    # One that has been given up is granted nothing, however late it speaks.
    assert not watch.heard()
    site.close()
    watch.close()


def test_a_lease_that_is_granted_lasts() -> None:
    """Each grant counts from when it was asked for."""
    expired = threading.Event()
    beats: queue.SimpleQueue[Any] = queue.SimpleQueue()
    site = SiteLease(beats.put, expired.set, every=SHORT.every, seconds=SHORT.seconds)
    deadline = time.monotonic() + 5 * SHORT.seconds
    while time.monotonic() < deadline:
        site.granted(beats.get(timeout=10).number)
    assert not expired.is_set()
    assert expired.wait(10)


def test_a_site_that_takes_long_to_start_is_not_given_up() -> None:
    """An allocation may have to be waited for; the lease begins with the first word."""
    lost = threading.Event()
    watch = LeaseWatch(SHORT)
    watch.begin(lambda why, at: lost.set())
    assert not lost.wait(2 * (SHORT.seconds + SHORT.margin))
    assert watch.heard()
    assert lost.wait(10)
    watch.close()


def test_the_end_of_a_stream_names_the_machine_at_once() -> None:
    """Long before the lease is over."""
    lost: queue.SimpleQueue[tuple[str, float]] = queue.SimpleQueue()
    watch = LeaseWatch(Lease())
    watch.begin(lambda why, at: lost.put((why, at)))
    watch.ended("exit code 255")
    assert lost.get(timeout=5)[0] == "exit code 255"
    assert not watch.silent
    watch.close()


@pytest.mark.parametrize(
    ("changed", "what"),
    [({"python": "2.7"}, "Python 2.7"), ({"tensorflow": ""}, "TensorFlow not at all"), ({"code": "0"}, "Lockstep")],
)
def test_other_versions_are_refused(changed: dict[str, Any], what: str) -> None:
    """One sentence names the machine, what it has, and what this one has."""
    fine = SimpleNamespace(name="m0", up=_up())
    same_versions([cast("FarMachine", fine)])
    other = SimpleNamespace(name="m1", up=_up(**changed))
    with pytest.raises(MachinesUnavailable, match=f"machine m1 has {what}"):
        same_versions([cast("FarMachine", fine), cast("FarMachine", other)])


def test_files_are_sent_while_others_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has gone meanwhile is not missed; links, caches and proofs of shared directories are not sent."""
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "words").write_text("sent")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    (tmp_path / ".lockstep-1").write_text("a proof")
    (tmp_path / "__pycache__").mkdir()
    there = list(checks._sent(tmp_path))
    assert [str(path.relative_to(tmp_path)) for path in there] == ["data", "data/deep", "data/deep/words"]
    monkeypatch.setattr(checks, "_sent", lambda cwd: [*there, cwd / "gone"])
    with tarfile.open(fileobj=io.BytesIO(checks._packed(tmp_path))) as archive:
        assert archive.getnames() == ["data", "data/deep", "data/deep/words"]


class _Meets:
    """A machine that reaches what it is told to."""

    def __init__(self, name: str, addresses: tuple[str, ...], met: dict[str, str]) -> None:
        self.name, self.address, self._met = name, "", met
        self.up = _up(addresses=addresses, kernel=name)

    def ask(self, question: Any) -> Any:
        question(1)
        return SimpleNamespace(addresses=self._met)


def test_a_machine_is_known_by_an_address_that_all_others_reach() -> None:
    """Not by the first of its network cards, which is the mistake that others make."""
    machines = [
        _Meets("a", ("10.0.0.1",), {"b": "172.17.0.1,10.0.0.2", "c": "10.0.0.3"}),
        _Meets("b", ("172.17.0.1", "10.0.0.2"), {"a": "10.0.0.1", "c": "10.0.0.3"}),
        _Meets("c", ("10.0.0.3",), {"a": "10.0.0.1", "b": "10.0.0.2"}),
    ]
    find_addresses(cast("list[FarMachine]", machines))
    assert [machine.address for machine in machines] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


def test_machines_that_do_not_reach_each_other_are_refused() -> None:
    """By their names, with the addresses that were tried and from where."""
    machines = [_Meets("a", ("10.0.0.1",), {"b": ""}), _Meets("b", ("10.0.0.2",), {"a": "10.0.0.1"})]
    with pytest.raises(MachinesUnavailable, match=r"machine b cannot .* has 10\.0\.0\.2, and a reaches none of them"):
        find_addresses(cast("list[FarMachine]", machines))


def test_a_stranger_is_not_taken_for_the_machine() -> None:
    """Who answers there has to say what the machine itself has said."""
    answering = Answering()
    try:
        right = Peer("m1", ("127.0.0.1",), answering.port, answering.token)
        wrong = Peer("m2", ("127.0.0.1",), answering.port, "0" * len(answering.token))
        assert reached([right, wrong], 5.0) == {"m1": "127.0.0.1", "m2": ""}
    finally:
        answering.close()
