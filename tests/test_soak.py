"""The soak: what it draws, what it takes for wrong, how it makes failures smaller, and that it finds planted ones."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from tests._installed import run_there
from tests.simulator._hosts import hosts_or_skip
from tests.simulator._wire import eventually
from tools import soak
from tools.soaking.cases import Blow, Case, Limit, command_of, drawn
from tools.soaking.checking import wrong_with
from tools.soaking.defects import DEFECTS
from tools.soaking.measuring import Measured, loss
from tools.soaking.packets import received, sent
from tools.soaking.running import Seen
from tools.soaking.shrinking import shrunk

PLAIN = Case(
    seed=1, workers=2, network="loopback", program="steps", which=0, at=1, steps=3, pause=0.0, restarts=0
)  # fmt: skip
WELL: dict[str, Any] = {"ended_well": True, "root_cause": None, "error": None, "tasks": {}}


def test_a_case_follows_from_its_seed() -> None:
    """The same one again, and between them all there is to draw."""
    cases = [drawn(seed) for seed in range(600)]
    assert cases == [drawn(seed) for seed in range(600)]
    assert {case.blow.target for case in cases if case.blow} >= {"lockstep", "relay", "keeper", "forkserver", "warden"}
    assert {case.limit.what for case in cases if case.limit} == {"files", "file_bytes", "disk_bytes", "memory_bytes"}
    assert {case.program for case in cases} >= {"steps", "talks", "sh", "bare_daemon", "exits_once", "hangs"}
    assert any(case.machines for case in cases)
    assert all("--" in command_of(case, Path("out")) for case in cases)


def _failed(task: str, kind: str, message: str = "code 7") -> dict[str, Any]:
    cause = {"task": task, "kind": kind, "message": message}
    return {**WELL, "ended_well": False, "root_cause": cause, "error": f"{task} failed first: {kind}: {message}"}


def _seen(tmp_path: Path, outcome: dict[str, Any] | None, code: int = 0, **more: Any) -> Seen:
    text = "" if outcome is None else msgspec.json.encode(outcome).decode()
    return Seen(**{"code": code, "stdout": text, "stderr": "", "struck": True, "left": [], "folder": tmp_path / "none",
                   "seconds": 1.0, **more})  # fmt: skip


def _blown(target: str, signal: str = "SIGKILL") -> Case:
    return msgspec.structs.replace(PLAIN, blow=Blow(target, signal, 0.1))


def _limited(what: str, program: str = "steps") -> Case:
    return msgspec.structs.replace(PLAIN, limit=Limit(what, 20), program=program)


@pytest.mark.parametrize(
    ("case", "outcome", "code", "more", "invariant"),
    [
        (PLAIN, WELL, 0, {}, None),
        (PLAIN, WELL, 0, {"left": ["process sleep 300"]}, "nothing left"),
        (PLAIN, WELL, 0, {"stderr": "Traceback (most recent call last)\n /simulator/x"}, "no traceback"),
        (PLAIN, WELL, 3, {}, "agreement"),
        (PLAIN, {**WELL, "error": "something"}, 0, {}, "agreement"),
        (PLAIN, None, 3, {}, "outcome told"),
        (PLAIN, None, None, {}, "ends"),
        (PLAIN, _failed("worker:0", "Exit"), 3, {}, "true cause"),
        (msgspec.structs.replace(PLAIN, program="exits"), _failed("worker:0", "Exit"), 3, {}, None),
        (msgspec.structs.replace(PLAIN, program="exits"), _failed("worker:1", "Exit"), 3, {}, "true cause"),
        (_blown("relay"), _failed("network", "RelayEnded"), 3, {}, None),
        (_blown("relay"), _failed("worker:0", "Exit"), 3, {}, "true cause"),
        (_blown("worker"), _failed("worker:1", "Signal"), 3, {}, None),
        (_blown("warden"), _failed("worker:1", "Signal"), 3, {}, "true cause"),
        (_blown("lockstep"), None, -9, {}, None),
        (_blown("lockstep"), None, -9, {"left": ["file x"]}, "nothing left"),
        (_limited("files"), _failed("lockstep", "OSError"), 3, {}, None),
        (_limited("files"), _failed("worker:1", "Exit"), 3, {}, "true cause"),
        (_limited("files"), _failed("lockstep", "ForkserverEnded", "it was killed"), 3, {}, "true cause"),
        (_limited("files", "exits"), _failed("worker:0", "Exit"), 3, {}, None),
        (_limited("files", "exits"), WELL, 0, {}, "true cause"),
        (_limited("disk_bytes"), _failed("worker:0", "Exit", "code 1; there is no room left"), 3, {}, None),
        (_limited("disk_bytes"), _failed("worker:0", "Exit"), 3, {}, "true cause"),
    ],
)
def test_what_does_not_hold_is_seen(
    case: Case, outcome: dict[str, Any] | None, code: int, more: dict[str, Any], invariant: str | None, tmp_path: Path
) -> None:
    """Each invariant once kept and once not."""
    wrong = [each.invariant for each in wrong_with(case, _seen(tmp_path, outcome, code, **more))]
    assert wrong == ([] if invariant is None else [invariant])


def test_results_that_say_something_else_are_seen(tmp_path: Path) -> None:
    """What was kept has to be what was printed, and to be readable."""
    seen = _seen(tmp_path, WELL, folder=tmp_path)
    file = tmp_path / "run.json"
    for data, invariants in (
        (msgspec.json.encode(WELL), []),
        (msgspec.json.encode({**WELL, "ended_well": False}), ["agreement"]),
        (b'{"ended_well": tr', ["results readable"]),
    ):
        file.write_bytes(data)
        assert [each.invariant for each in wrong_with(PLAIN, seen)] == invariants


def test_a_failure_is_made_as_small_as_it_can_be() -> None:
    """All that does not matter is taken away, and what does stays."""
    blow = Blow("lockstep", "SIGTERM", 0.5)
    case = Case(seed=9, workers=4, network="namespaces", program="talks", which=3, at=9, steps=9, pause=0.05,
                restarts=2, links=("a", "b"), blow=blow)  # fmt: skip
    found = shrunk(case, lambda other: other.blow is not None and other.restarts > 0)
    assert found == msgspec.structs.replace(PLAIN, seed=9, workers=1, at=3, blow=blow, restarts=2)


def test_a_measurement_is_held_against_its_interval() -> None:
    """A loss of 10 % lies in its own, and one of 19 %, which is twice by chance, does not."""
    assert loss("UDP", 0.1, 1000, 110).holds
    assert not loss("UDP", 0.1, 1000, 190).holds
    assert "0.19 for 0.1 asked" in str(loss("UDP", 0.1, 1000, 190))
    assert not Measured("delay", "TCP", "loopback", 0.01, 0.009, 0.01, 0.02).holds


def test_a_datagram_that_a_late_receiver_has_no_room_for_is_not_the_links_loss(tmp_path: Path) -> None:
    """On a busy machine it stands for longer than its buffer lasts; the control is a sender that does not wait."""
    with socket.socket(type=socket.SOCK_DGRAM) as ours, socket.socket(type=socket.SOCK_DGRAM) as theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
        ours.bind(("127.0.0.1", 0))
        sender = threading.Thread(target=sent, args=(theirs, ours.getsockname(), tmp_path, 1000))
        sender.start()
        eventually((tmp_path / "sent-100").exists, "a hundred datagrams")
        assert received(ours, tmp_path, 1000) == 1000
        sender.join()
        for _ in range(1000):
            theirs.sendto(b"x", ours.getsockname())
        assert received(ours, tmp_path, 1000) < 1000


@pytest.mark.full
def test_a_case_is_carried_out() -> None:
    """A real run of a program that leaves a daemon without an environment: nothing is left, and it has ended well.

    In a process of its own, which kills all that is below it at the end.
    """
    seed = next(seed for seed in range(5000) if _is_plain(drawn(seed)))
    options = ("--seed", str(seed), "--runs", "1", "--jobs", "1")
    done = run_there(soak.ROOT, sys.executable, "tools/soak.py", *options)
    assert "1 runs in" in done.stdout
    assert "programs: bare_daemon 1" in done.stdout


def _is_plain(case: Case) -> bool:
    disturbed = case.blow or case.limit or case.machines or case.network != "loopback"
    return case.program == "bare_daemon" and not disturbed and case.seed % 5 != 0


def test_the_texts_that_planted_defects_change_are_there() -> None:
    """Each of them is found in the code of today, once."""
    assert [(soak.ROOT / each.file).read_text().count(each.before) for each in DEFECTS.values()] == [1] * len(DEFECTS)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_a_planted_defect_is_found(name: str) -> None:
    """Within a hundred runs."""
    hosts_or_skip()
    done = CliRunner().invoke(soak.main, ["--defect", name, "--runs", "100", "--jobs", "2"])
    assert f"defect {name}: found in run" in done.output, done.output


@pytest.mark.full
def test_a_few_minutes_of_the_soak_are_as_they_should_be() -> None:
    """Of each seed of these."""
    hosts_or_skip()
    done = CliRunner().invoke(soak.main, ["--seed", "1000", "--runs", "60", "--jobs", "2"])
    assert done.exit_code == 0, done.output
