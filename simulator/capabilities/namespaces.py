"""Which namespaces, cables and filters work here, found by really trying them in a child process.

Reading kernel settings is not enough: containers, seccomp and security modules refuse what the settings allow. The
child enters the namespaces and exits, so nothing outlives it.
"""

from __future__ import annotations

import json
import subprocess
import sys

from _lockstep.children import child_command

TRIALS = (
    "user_namespaces",
    "mount_namespaces",
    "network_namespaces",
    "veth",
    "tbf",
    "nftables",
    "netem",
    "pid_namespaces",
)
# Without these no host is like another machine; netem is not among them, since the relay delays.
_NEEDED = tuple(name for name in TRIALS if name != "netem")
_SECONDS_MAX = 10.0


def try_namespaces() -> dict[str, str]:
    """Return, for each of `TRIALS`, an empty string where it works and the reason where it does not."""
    untried = dict.fromkeys(TRIALS, "needs a user and a network namespace, and this machine gave none")
    if not sys.platform.startswith("linux"):
        return dict.fromkeys(TRIALS, f"namespaces are a Linux feature; this is {sys.platform}")
    command = child_command("simulator.helpers.trials", isolated=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        return dict.fromkeys(TRIALS, f"the trial did not end within {_SECONDS_MAX:g} s")
    except OSError as error:
        return dict.fromkeys(TRIALS, f"the trial did not start: {error}")
    try:
        outcome: dict[str, str] = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return dict.fromkeys(TRIALS, f"the trial ended with exit code {done.returncode}: {last}")
    return {name: {**untried, **outcome}[name] for name in TRIALS}


def try_hosts(trials: dict[str, str]) -> str:
    """Return an empty string if tasks can have hosts of their own (`network=namespaces`), else why not.

    Args:
        trials: what `try_namespaces` has found.
    """
    missing = [name for name in _NEEDED if trials[name]]
    if missing:
        return f"needs {', '.join(missing)}"
    from simulator.errors import LockstepError
    from simulator.machines.local.scratch import scratch
    from simulator.network import Hosts
    from simulator.topology import Topology

    try:
        with scratch("doctor") as directory, Hosts(Topology(worker=2), directory) as hosts:
            hosts.probe("worker:0", "worker:1", _SECONDS_MAX)
    except LockstepError as error:
        return str(error)
    return ""


def try_private_files() -> str:
    """Return an empty string if a run can have a view of the file system of its own, else why not."""
    from simulator.errors import LockstepError
    from simulator.machines.local.private_files import private_files

    try:
        with private_files([], []):
            return ""
    except (LockstepError, OSError, subprocess.SubprocessError) as error:
        return str(getattr(error, "why", "") or error)
