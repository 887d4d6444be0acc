"""Pods as machines, by a `kubectl` that is not the real one and does with `exec -i` what that does."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, Topology
from simulator.machines.far.checks import MachinesUnavailable

PODS = "kubectl exec -i {} --:train-0,train-1"

# A container has an environment and a working directory of its own, and nothing of those of who calls. Its process does
# not end with `kubectl`; an exit code is passed on, and told. Words after the pod are options of kubectl's own unless
# `--` is before them.
KUBECTL = """\
#!{python}
import subprocess, sys

verb, joined, pod, *command = sys.argv[1:]
if (verb, joined) != ("exec", "-i"):
    sys.exit("error: unknown command")
if command[0] != "--":
    sys.exit(f"error: unknown shorthand flag: {{command[1][1]!r}} in {{command[1]}}")
if pod not in ("train-0", "train-1"):
    sys.exit(f'Error from server (NotFound): pods "{{pod}}" not found')
environ = {{"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "HOSTNAME": pod}}
code = subprocess.Popen(command[1:], env=environ, cwd="/", start_new_session=True).wait()
if code:
    sys.exit(f"command terminated with exit code {{code}}")
"""


@pytest.fixture(autouse=True)
def _kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on PATH; where the program is, nobody else is."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "kubectl"
    command.write_text(textwrap.dedent(KUBECTL).format(python=sys.executable))
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=os.pathsep)
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "prog.sh").write_text("read words < words; echo $words from $HOSTNAME $ONLY_HERE; pwd\n")
    (tmp_path / "program" / "words").write_text("sent\n")
    monkeypatch.chdir(tmp_path / "program")
    monkeypatch.setenv("ONLY_HERE", "of whoever calls")


def _cluster(machines: str) -> Cluster:
    options: dict[str, Any] = {"preload": (), "timeout": 60, "files": "ship"}
    return Cluster(Topology(worker=2), machines=machines, python=sys.executable, **options)


def test_tasks_run_in_pods() -> None:
    """With their environment and the files that were sent, of which nothing stays."""
    with _cluster(PODS) as cluster:
        result = cluster.run_command(["sh", "prog.sh"])
    said = [task.log.splitlines() for task in result.values()]
    assert [lines[0] for lines in said] == ["sent from train-0", "sent from train-1"]
    assert not any(Path(lines[1]).exists() for lines in said)


@pytest.mark.parametrize(
    ("machines", "why"),
    [
        ("kubectl exec -i {} --:train-0,train-7", r'pods "train-7" not found'),
        ("kubectl exec -i {}:train-0", r"unknown shorthand flag: 'u' in -u"),
    ],
)
def test_what_kubectl_says_is_in_the_error(machines: str, why: str) -> None:
    """A pod that is not there, and a line without `--`, whose words kubectl would take for its own."""
    with pytest.raises(MachinesUnavailable, match=why):
        _cluster(machines).__enter__()
