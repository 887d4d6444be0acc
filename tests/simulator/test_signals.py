"""Tasks can be ended by signals, whatever the shell has made Lockstep itself ignore or block."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests._installed import run_there

ROOT = Path(__file__).parents[2]
# As `nohup`, `&` and `trap '' TERM` do it, and a process that was started by a thread which blocks signals.
FROM_BIRTH = """
import os, signal, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD))
os.execv(sys.executable, (sys.executable, *sys.argv[1:]))
"""
TELL = """
import json, signal
def tell():
    ignored = [n.name for n in signal.Signals if signal.getsignal(n) == signal.SIG_IGN]
    blocked = [n.name for n in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
    return {"ignored": ignored, "blocked": blocked, "ctrl_c": signal.getsignal(2) is signal.default_int_handler}
"""
SCRIPT = f"""
import json, sys
from simulator import Cluster, Topology
{TELL}
program = sys.argv[1]
with Cluster(Topology(worker=1), preload=(), timeout=40) as cluster:
    found = {{"function": cluster.run(tell)["worker:0"].value}}
    result = cluster.run_command([sys.executable, program])
    found["program"] = json.loads(result["worker:0"].log_tail())
print(json.dumps({{**found, "own": tell()}}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What function, program and their parent say of their signals."""
    folder = tmp_path_factory.mktemp("signals")
    (folder / "program.py").write_text(f"{TELL}\nprint(json.dumps(tell()))")
    done = run_there(ROOT, sys.executable, "-c", FROM_BIRTH, "-c", SCRIPT, str(folder / "program.py"))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("kind", ["function", "program"])
def test_a_task_ignores_and_blocks_nothing(kind: str, told: dict[str, Any]) -> None:
    """But for the two signals that Python itself ignores."""
    assert told[kind] == {"ignored": ["SIGPIPE", "SIGXFSZ"], "blocked": [], "ctrl_c": True}


def test_the_parent_stays_as_the_shell_wants_it(told: dict[str, Any]) -> None:
    """Who has started it with `nohup` does not want it to end with the terminal."""
    assert {"SIGHUP", "SIGINT", "SIGTERM"} <= set(told["own"]["ignored"])
