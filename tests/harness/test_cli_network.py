"""`--network=namespaces` on the command line: a host for each task, saved with the job, refused where there is none."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from simulator.helpers.doorkeeper import Descriptor
from simulator.network import hosts
from tests.harness._called import json_of, lockstep, usage_error
from tests.simulator._hosts import hosts_or_skip

HOSTS = "--network=namespaces"
# Each worker learns the other's name, and worker-0 sends worker-1 a hundred pieces.
TALK = """
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
host, _, port = config["cluster"]["worker"][1].rpartition(":")
if config["task"]["index"] == 1:
    with socket.create_server(("", int(port))) as server, server.accept()[0] as connection:
        got = 0
        while piece := connection.recv(1 << 16):
            got += len(piece)
    print(socket.gethostname(), got)
else:
    deadline = time.monotonic() + 20
    while True:
        try:
            connection = socket.create_connection((host, int(port)), 5)
            break
        except OSError:
            assert time.monotonic() < deadline
    for _ in range(100):
        connection.sendall(bytes(10000))
    connection.close()
    print(socket.gethostname())
"""


@pytest.mark.full
def test_a_program_runs_on_hosts_and_is_replayed_on_hosts(tmp_path: Path) -> None:
    """Its tasks know each other by name, packets are lost, the report counts them, and the replay has hosts again."""
    hosts_or_skip()
    (tmp_path / "talk.py").write_text(TALK)
    out = tmp_path / "out"
    link = "src=worker:0,dst=worker:1,loss=2%,one_way"
    found = json_of(
        "run",
        "--quiet",
        "--worker",
        "2",
        HOSTS,
        "--link",
        link,
        "--out",
        out,
        "--",
        "python3",
        tmp_path / "talk.py",
    )
    assert found["ended_well"]
    assert sum(counters["lost"] for counters in found["links"]) > 0
    logs = {path.stem: path.read_text().strip() for path in (out / "0" / "logs").iterdir()}
    assert logs == {"worker-0": "worker-0", "worker-1": "worker-1 1000000"}
    assert json.loads((out / "run.json").read_text())["job"]["network"] == "namespaces"
    assert "packets lost" in lockstep("report", out).stdout
    assert json_of("replay", "--quiet", out)["same"]


def test_dry_run_shows_the_hosts() -> None:
    """Nothing is started, so it needs no machine that gives hosts."""
    shown = json_of("run", "--dry-run", "--worker", "2", "--ps", "1", HOSTS, "--", "true")
    assert shown["tf_config"]["ps:0"]["cluster"] == {
        "chief": ["chief-0:2222"],
        "worker": ["worker-0:2222", "worker-1:2222"],
        "ps": ["ps-0:2222"],
    }


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose kernel refuses user namespaces."""

    def refuse(control: object, doors: Descriptor, plan: object) -> None:
        with socket.socket(fileno=doors.number) as door:
            door.send(b"PermissionError: unshare: Operation not permitted")

    monkeypatch.setattr(hosts, "_keep", refuse)


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize("command", ["run", "verify"])
def test_a_machine_without_hosts_is_exit_code_4(command: str, tmp_path: Path) -> None:
    """The reason is told, and nothing is run on loopback instead."""
    marker = tmp_path / "started"
    (tmp_path / "program.py").write_text(
        f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n"
        "def train(strategy, record):\n    record.step(loss=1.0)\n"
    )
    arguments = {
        "run": ("--worker", "2", HOSTS, "--", "python3", str(tmp_path / "program.py")),
        "verify": (f"{tmp_path / 'program.py'}:train", "--strategy", "multi_worker-2", "--exact", HOSTS),
    }[command]
    result = lockstep(command, *arguments, code=4)
    assert "Operation not permitted; `lockstep doctor` says what this machine lacks" in result.output
    assert command == "verify" or not marker.exists()


def test_loss_without_hosts_is_a_usage_error() -> None:
    """Over loopback there are no packets, which is said before anything starts."""
    said = usage_error("run", "--worker", "2", "--link", "src=*,dst=*,loss=1%", "--", "true")
    assert "network=namespaces" in said


@pytest.mark.full
def test_verify_gives_the_numbers_of_one_device_between_hosts(tmp_path: Path) -> None:
    """The verdict is that over loopback, with the bytes of the links; a strategy of one process has no network."""
    hosts_or_skip()
    (tmp_path / "program.py").write_text(
        "def train(strategy, record):\n"
        "    import socket\n"
        "    import tensorflow as tf\n"
        "    with strategy.scope():\n"
        "        weight = tf.Variable([1.0, 2.0])\n"
        "    def replica():\n"
        "        context = tf.distribute.get_replica_context()\n"
        "        mean = context.all_reduce('mean', tf.constant([0.5, 0.25]))\n"
        "        weight.assign_sub(mean)\n"
        "    for _ in range(3):\n"
        "        strategy.run(replica)\n"
        "        record.step(variables=[weight], metrics={'host': float(socket.gethostname() == 'worker-0')})\n"
    )
    asked = (f"{tmp_path / 'program.py'}:train", "--strategy", "multi_worker-2", "--exact", HOSTS)
    found = json_of("verify", *asked, code=1)
    # Only the name of the host differs: it proves where the program ran.
    assert {finding["observable"] for finding in found["findings"]} == {"metrics"}
    assert sorted(found["links"]) == ["worker:0 -> worker:1", "worker:1 -> worker:0"]
