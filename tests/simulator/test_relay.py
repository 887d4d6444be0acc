"""What the relay does to connections, with plain sockets in place of tasks."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import pytest

from simulator import DeadlineExceeded, Link, LinkRefused, RelayEnded
from simulator.helpers.relay.directed import Directed
from simulator.helpers.relay.timers import Timers
from simulator.network import Fired, LinkRule, network_causes
from simulator.network.helper import Helper
from simulator.wire import network as messages
from tests._ended import has_ended
from tests.simulator._wire import Refused, Wire, eventually, exactly, is_reset, is_silent, least, wire

FORTH = {"src": "worker:0", "dst": "worker:1", "one_way": True}


@pytest.fixture(scope="module")
def _shared() -> Iterator[Wire]:
    with wire() as shared:
        yield shared


@pytest.fixture
def line(_shared: Wire) -> Iterator[Wire]:
    """A relay between worker:0 and worker:1, shared by the tests and without conditions at the start of each."""
    yield _shared
    _shared.network.clear()


def link(**fields: object) -> Link:
    return Link.from_mapping({**FORTH, **fields})


def round_trip(near: socket.socket, far: socket.socket) -> float:
    began = time.monotonic()
    near.sendall(b"?")
    exactly(far, 1)
    far.sendall(b"!")
    exactly(near, 1)
    return time.monotonic() - began


def test_without_conditions_everything_passes_both_ways() -> None:
    """A megabyte each way arrives unchanged, and every counter is exact."""
    sent = random.Random(0).randbytes(1 << 20)
    with wire() as line:
        near, far = line.connect()
        for one, other in ((near, far), (far, near)):
            writer = threading.Thread(target=one.sendall, args=(sent,))
            writer.start()
            assert hashlib.sha256(exactly(other, len(sent))).digest() == hashlib.sha256(sent).digest()
            writer.join()
        for src, dst, connections in (("worker:0", "worker:1", 1), ("worker:1", "worker:0", 0)):
            counted = line.count(src, dst)
            assert (counted.bytes, counted.delivered, counted.connections) == (len(sent), len(sent), connections)
            assert (counted.dropped, counted.held, counted.queued, counted.refused, counted.resets) == (0,) * 5


def test_counters_are_those_of_each_directed_link() -> None:
    """What a task sends counts on its own link, on whichever side's connection: collectives pull."""
    with wire(3) as line:
        for src, dst, there, back in (("worker:0", "worker:1", 5, 7), ("worker:1", "worker:0", 11, 13)):
            near, far = line.connect(src, dst)
            near.sendall(bytes(there))
            exactly(far, there)
            far.sendall(bytes(back))
            exactly(near, back)
        counted = line.network.counters()
        assert {pair: (link.bytes, link.connections) for pair, link in counted.items()} == {
            ("worker:0", "worker:1"): (5 + 13, 1),
            ("worker:1", "worker:0"): (7 + 11, 1),
        }


def test_delay_is_kept(line: Wire) -> None:
    """Each of some round trips takes the delay of both directions at least, and the quickest hardly more."""
    near, far = line.connect()
    without = min(round_trip(near, far) for _ in range(20))
    line.network.set(link(delay="8ms", one_way=False))
    most = 0.016 + without + 0.003
    assert 0.016 <= least(lambda: round_trip(near, far), below=most) < most


def test_a_fraction_of_a_millisecond_is_kept(line: Wire) -> None:
    """A delay of 0.3 ms is not rounded to whole milliseconds, as epoll's timeouts are."""
    near, far = line.connect()
    without = min(round_trip(near, far) for _ in range(20))
    line.network.set(link(delay="300us"))
    trips = [round_trip(near, far) for _ in range(30)]
    assert min(trips) >= 0.0003
    assert min(trips) < 0.0003 + without + 0.0005


def _seconds_to(sender: socket.socket, receiver: socket.socket) -> float:
    """How long a byte takes."""
    began = time.monotonic()
    sender.sendall(b"x")
    exactly(receiver, 1)
    return time.monotonic() - began


def test_one_way_leaves_the_other_direction_alone(line: Wire) -> None:
    """A delay from worker:0 to worker:1 meets the requests of worker:0's connections and the answers on worker:1's."""
    line.network.set(link(delay="30ms"))
    for src, dst in (("worker:0", "worker:1"), ("worker:1", "worker:0")):
        near, far = line.connect(src, dst)
        forth, back = (near, far) if src == "worker:0" else (far, near)
        assert least(lambda: _seconds_to(back, forth), below=0.03) < 0.03  # noqa: B023 - called here
        assert _seconds_to(forth, back) >= 0.03


def test_both_ways_is_what_a_link_means_unless_it_says_otherwise(line: Wire) -> None:
    """The probe sees the delay of both directions, then of one, then of none."""
    with line.network.set(Link(src="worker:0", dst="worker:1", delay="10ms")):
        assert line.network.probe("worker:0", "worker:1") >= 0.02
    with line.network.set(link(delay="10ms")):
        assert 0.01 <= least(lambda: line.network.probe("worker:1", "worker:0"), below=0.02) < 0.02
    assert least(lambda: line.network.probe("worker:0", "worker:1"), below=0.01) < 0.01


@pytest.mark.parametrize("kind", ["uniform", "normal", "pareto"])
def test_jitter_never_reorders_a_connection(line: Wire, kind: str) -> None:
    """With a jitter as large as the delay, what comes out is what went in."""
    near, far = line.connect()
    line.network.set(link(delay="2ms", jitter="2ms", jitter_kind=kind))
    sent = b"".join(index.to_bytes(2, "big") for index in range(300))
    for start in range(0, len(sent), 2):
        near.sendall(sent[start : start + 2])
    assert exactly(far, len(sent)) == sent


def test_jitter_is_distributed_as_said() -> None:
    """Uniform stays within its bounds, normal has its deviation, pareto never is below the delay; seeds repeat."""

    def draws(kind: str, seed: str = "seed") -> list[float]:
        idle: Timers = object.__new__(Timers)
        state = Directed("a", "b", idle, random.Random(seed), delay=0.1, jitter=0.01, jitter_kind=kind)
        return [state.draw() for _ in range(20_000)]

    uniform, normal, pareto = draws("uniform"), draws("normal"), draws("pareto")
    assert 0.09 <= min(uniform) < 0.0901
    assert 0.1099 < max(uniform) <= 0.11
    # Within the standard error of 20 000 draws, five times over.
    assert abs(sum(normal) / len(normal) - 0.1) < 5 * 0.01 / 20_000**0.5
    assert abs((sum((draw - 0.1) ** 2 for draw in normal) / len(normal)) ** 0.5 - 0.01) < 5 * 0.01 / 40_000**0.5
    assert min(pareto) >= 0.1
    # A Pareto variable of shape 3 exceeds x times its minimum with probability x to the power of -3.
    assert abs(sum(draw > 0.11 for draw in pareto) / len(pareto) - 1 / 8) < 5 * (7 / 64 / 20_000) ** 0.5
    assert draws("uniform") == uniform != draws("uniform", "another")


def test_rate_is_shared_by_the_connections_of_a_link(line: Wire) -> None:
    """Twice 200 kB at 4 MB/s take the 100 ms that 400 kB take, and not 50 ms."""
    ends = [line.connect(), line.connect("worker:1", "worker:0")]
    line.network.set(link(rate="4MB/s"))
    began = time.monotonic()
    senders = [ends[0][0], ends[1][1]]
    receivers = [ends[0][1], ends[1][0]]
    writers = [threading.Thread(target=sender.sendall, args=(bytes(200_000),)) for sender in senders]
    readers = [threading.Thread(target=exactly, args=(receiver, 200_000)) for receiver in receivers]
    for thread in (*writers, *readers):
        thread.start()
    for thread in (*writers, *readers):
        thread.join()
    assert time.monotonic() - began >= 0.1


def test_a_stall_takes_nothing_and_ends_by_itself(line: Wire) -> None:
    """Bytes sent during a stall are not even read; afterwards they arrive."""
    near, far = line.connect()
    before = line.count().bytes
    began = time.monotonic()
    line.network.set(link(stall="600ms"))
    near.sendall(b"late")
    assert is_silent(far)
    assert line.count().bytes == before
    assert exactly(far, 4) == b"late"
    assert time.monotonic() - began >= 0.6


def test_a_reset_ends_open_connections_and_later_ones_with_their_first_byte() -> None:
    """Both ends get RST; a new connection is reset when it carries something; after the removal all is well."""
    with wire() as line:
        ends = [line.connect(), line.connect("worker:1", "worker:0")]
        with line.network.set(link(reset=True)):
            assert all(is_reset(end) for pair in ends for end in pair)
            near, far = line.connect()
            near.sendall(b"x")
            assert is_reset(far)
            assert (line.count().resets, line.count().dropped) == (3, 1)
        near, far = line.connect()
        assert round_trip(near, far) < 1


def test_a_blackhole_swallows_and_says_nothing(line: Wire) -> None:
    """Bytes and the end of the connection vanish, both ends stay open, and every byte is counted as dropped."""
    near, far = line.connect()
    before = line.count()
    with line.network.set(link(blackhole=True)):
        near.sendall(bytes(1000))
        near.shutdown(socket.SHUT_WR)
        assert is_silent(far)
        assert line.count().dropped - before.dropped == 1000
        far.sendall(b"the other direction")
        assert exactly(near, 19) == b"the other direction"
        unborn = line.open("worker:0", "worker:1")
        assert is_silent(unborn)
    # What comes after a gap is never delivered: the connection is reset; one that waited is established.
    assert is_reset(near)
    assert is_reset(far)
    assert unborn.recv(100).startswith(b"HTTP/1.1 200")
    line.accept("worker:1")


def test_a_blackhole_leaves_a_connection_alone_that_has_lost_nothing(line: Wire) -> None:
    """An idle connection survives."""
    near, far = line.connect()
    with line.network.set(link(blackhole=True)):
        pass
    assert round_trip(near, far) < 1


def test_a_hold_keeps_everything_and_delivers_it_afterwards(line: Wire) -> None:
    """Bytes and the end come in order after the hold, none before, and all are counted as held."""
    near, far = line.connect()
    before = line.count()
    with line.network.set(link(hold=True)):
        near.sendall(b"one ")
        near.sendall(b"two")
        near.shutdown(socket.SHUT_WR)
        assert is_silent(far)
        eventually(lambda: line.count().held - before.held == 7, "7 bytes to be held")
        assert line.count().queued == 7
    assert exactly(far, 7) == b"one two"
    assert far.recv(1) == b""
    assert line.count().delivered - before.delivered == 7


def test_a_hold_keeps_what_was_on_its_way(line: Wire) -> None:
    """Bytes within a delay when the hold begins are not delivered during it."""
    near, far = line.connect()
    line.network.set(link(delay="600ms"))
    near.sendall(b"x")
    eventually(lambda: line.count().queued == 1, "the byte to be on its way")
    with line.network.set(link(hold=True)):
        assert is_silent(far)
    assert exactly(far, 1) == b"x"


def test_refuse_refuses_new_connections_only(line: Wire) -> None:
    """Open connections go on, the other side may still open some, and refusals are counted."""
    before = line.count()
    near, far = line.connect()
    with line.network.set(link(refuse=True)):
        with pytest.raises(Refused, match="502"):
            line.connect()
        with pytest.raises(LinkRefused):
            line.network.probe("worker:0", "worker:1")
        assert round_trip(near, far) < 1
        line.connect("worker:1", "worker:0")
    line.connect()
    after = line.count()
    assert (after.refused - before.refused, after.connections - before.connections) == (1, 3)


def test_a_condition_may_end_by_itself(line: Wire) -> None:
    """A refusal for 0.6 s is over afterwards without anybody's doing."""
    line.network.set(link(refuse="600ms"))

    def connects() -> bool:
        try:
            line.connect()
        except Refused:
            return False
        return True

    assert not connects()
    eventually(connects, "the refusal to end")


def test_half_close_is_passed_on(line: Wire) -> None:
    """An end in one direction arrives as such, and the other direction still carries."""
    near, far = line.connect()
    near.sendall(b"request")
    near.shutdown(socket.SHUT_WR)
    assert exactly(far, 7) == b"request"
    assert far.recv(1) == b""
    far.sendall(b"answer")
    far.close()
    assert exactly(near, 6) == b"answer"
    assert near.recv(1) == b""


def test_a_reset_by_a_task_is_passed_on(line: Wire) -> None:
    """RST from one end arrives as RST at the other, after what was sent before, and also under a delay."""
    for fields in ({}, {"delay": "5ms"}):
        near, far = line.connect()
        if fields:
            line.network.set(link(**fields))
        near.sendall(b"last words")
        assert exactly(far, 10) == b"last words"
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        near.close()
        assert is_reset(far)


def test_a_dead_upstream_is_refused_and_not_accepted() -> None:
    """Nobody listens at the destination: 502, no connection, and no byte is lost without notice."""
    with wire() as line:
        line.connect()
        line.leave("worker:1")
        with pytest.raises(Refused, match="502"):
            line.connect()
        assert (line.count().connections, line.count().refused) == (2, 1)


def test_a_request_that_is_no_connect_is_closed(line: Wire) -> None:
    """Another method gets no answer."""
    port = int(line.network.environ("worker:0")["grpc_proxy"].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 5) as browser:
        browser.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert browser.recv(10) == b""


def test_back_pressure_bounds_what_the_relay_keeps() -> None:
    """A sender whose receiver does not read is stopped, and the relay holds no more than its bound."""
    bound = 1 << 20
    with wire(queue_bytes=bound) as line:
        near, far = line.connect()
        for condition in (None, link(hold=True)):
            if condition:
                line.network.set(condition)
            near.settimeout(0.2)
            # More than the buffers of the kernel and the bound together.
            with pytest.raises(TimeoutError):
                near.sendall(bytes(64 << 20))
            assert 0 < line.count().queued <= bound + (256 << 10)
        line.network.clear()
        reader = threading.Thread(target=is_reset, args=(far,))
        reader.start()
        eventually(lambda: line.count().queued == 0, "the queue to be empty")
        near.close()
        reader.join()
        assert line.count().bytes == line.count().delivered


def test_a_trigger_by_bytes_is_exact() -> None:
    """Exactly so many bytes pass, the rest vanishes, and the parent is told at which count."""
    heard: list[tuple[LinkRule, Fired]] = []
    with wire() as line:
        line.network.on_fired(lambda rule, fired: heard.append((rule, fired)))
        near, far = line.connect()
        rule = line.network.set(link(blackhole=True, after_bytes="100B"))
        near.sendall(bytes(60))
        exactly(far, 60)
        assert rule.fired == []
        near.sendall(bytes(60))
        exactly(far, 40)
        assert is_silent(far)
        fired = line.network.wait_fired(rule, 5)
        assert (fired.src, fired.dst, fired.bytes, fired.connections) == ("worker:0", "worker:1", 100, 1)
        eventually(lambda: heard == [(rule, fired)], "the callback")
        assert (line.count().delivered, line.count().dropped) == (100, 20)


def test_a_trigger_by_connections_meets_the_connection_it_names() -> None:
    """The second connection is refused, the first is not."""
    with wire() as line:
        rule = line.network.set(link(refuse=True, after_connections=2))
        line.connect()
        line.connect("worker:1", "worker:0")
        assert rule.fired == []
        with pytest.raises(Refused):
            line.connect()
        assert line.network.wait_fired(rule, 5).connections == 2


def test_a_trigger_that_is_not_met_is_missed_by_name() -> None:
    """Waiting for it fails with the link's text."""
    with wire() as line:
        rule = line.network.set(link(hold=True, after_bytes="1MB"))
        with pytest.raises(DeadlineExceeded, match=r"trigger of link src=worker:0,dst=worker:1.*after_bytes=1MB"):
            line.network.wait_fired(rule, 0.01)


def test_the_later_rule_counts_and_its_end_brings_back_the_earlier(line: Wire) -> None:
    """Rules lie on top of each other; what a later one does not mention stays."""
    low = line.network.set(link(delay="5ms"))
    with line.network.set(link(delay="40ms")), line.network.set(link(rate="1GB/s")):
        assert line.network.probe("worker:0", "worker:1") >= 0.04
    assert 0.005 <= least(lambda: line.network.probe("worker:0", "worker:1"), below=0.04) < 0.04
    low.remove()
    low.remove()
    assert least(lambda: line.network.probe("worker:0", "worker:1"), below=0.005) < 0.005


def test_a_probe_through_a_blackhole_gives_up_and_counts_nothing(line: Wire) -> None:
    """It says between whom it waited; probes leave no trace in the counters."""
    before = line.count()
    line.network.probe("worker:0", "worker:1")
    line.network.set(link(blackhole=True))
    with pytest.raises(DeadlineExceeded, match="round trip from worker:0 to worker:1"):
        line.network.probe("worker:0", "worker:1", timeout=0.05)
    assert line.count() == before


def test_the_relay_ends_with_its_parent() -> None:
    """After SIGKILL of the parent the relay is gone, without the parent's doing."""
    script = textwrap.dedent("""
        import os, signal, sys
        from simulator import Network, Topology
        network = Network(Topology(worker=2), {"worker:0": "127.0.0.1:1", "worker:1": "127.0.0.1:2"}).__enter__()
        network.wait_ready()
        sys.stdout.write(str(network.pid))
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == -9
    eventually(lambda: has_ended(int(done.stdout)), "the relay to end")


def test_a_relay_that_meets_an_error_ends_with_it() -> None:
    """It does not go on without what has failed, and the run fails with the error itself."""
    ended = threading.Event()
    with wire() as line:
        line.network.on_ended(ended.set)
        near, _ = line.connect()
        relay = line.network._relay
        assert relay is not None
        # Such a rate is refused long before it gets here.
        no_rate = messages.Conditions(rate=float("inf"))
        pairs = [("worker:0", "worker:1")]
        message = messages.Install(request=99, rule=99, pairs=pairs, both=False, conditions=no_rate)
        relay.helper.ask(message, "a defect")
        near.sendall(b"x")
        assert ended.wait(10)
        (cause,) = network_causes(line.network, alone=True)
        assert (cause.kind, cause.message[:45]) == ("RelayEnded", "the relay ended during the run: OverflowError")


def test_a_relay_that_is_killed_is_told() -> None:
    """Whoever watches hears of it, and every request fails with the reason instead of waiting."""
    ended = threading.Event()
    with wire() as line:
        line.network.on_ended(ended.set)
        os.kill(line.network.pid, 9)
        assert ended.wait(10)
        assert line.network.failed
        with pytest.raises(RelayEnded):
            line.network.set(link(hold=True))


def test_who_fails_for_want_of_the_relay_knows_that_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before whoever reads what it says has come to the end of that: else tasks that lost it are blamed."""
    hear = Helper._hear_all

    def late(helper: Helper) -> None:
        hear(helper)
        threading.Event().wait(0.3)

    monkeypatch.setattr(Helper, "_hear_all", late)
    with wire() as line:
        os.kill(line.network.pid, 9)
        eventually(lambda: has_ended(line.network.pid), "the relay to end")
        with pytest.raises(RelayEnded):
            line.network.counters()
        assert line.network.failed
