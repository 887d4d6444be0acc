"""Run in a process of its own: enters each kind of namespace and tries what hosts for tasks are made of.

Prints one JSON object: each trial with an empty text where it works, else with the reason. What is no refusal, such as
an error of Lockstep's own, ends the process with its traceback.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from simulator import kernel


def main() -> None:
    """Try everything in the order in which one needs the other."""
    outcome: dict[str, str] = {}

    def attempt(name: str, trial: Callable[[], None]) -> bool:
        try:
            trial()
        except _refusals() as error:
            outcome[name] = _reason(error)
        else:
            outcome[name] = ""
        return not outcome[name]

    if attempt("user_namespaces", _user):
        attempt("mount_namespaces", _mounts)
        if attempt("network_namespaces", lambda: kernel.unshare(kernel.NEW_NETWORK)) and attempt("veth", _veth):
            attempt("tbf", lambda: _queue("tbf", rate="1mbit", burst=32768, latency=50000))
            attempt("nftables", _nftables)
            attempt("netem", lambda: _queue("netem", delay=1000))
        # Last: once the first process of a new process namespace has ended, this one cannot start another.
        attempt("pid_namespaces", lambda: kernel.unshare(kernel.NEW_PROCESSES))
    sys.stdout.write(json.dumps(outcome))
    sys.stdout.flush()
    # Without the threads and exit handlers of what was imported.
    os._exit(0)


def _refusals() -> tuple[type[Exception], ...]:
    try:
        from pyroute2.netlink.exceptions import NetlinkError
    except ImportError:
        return OSError, ImportError
    return OSError, ImportError, NetlinkError


def _reason(error: Exception) -> str:
    # An errno and its text, as OSError and pyroute2's errors have them.
    text = str(error.args[1]) if len(error.args) == 2 else str(error)
    what = "; pip install pyroute2" if isinstance(error, ImportError) else ""
    return (" ".join(text.split()) or type(error).__name__) + what


def _user() -> None:
    user, group = os.getuid(), os.getgid()
    kernel.unshare(kernel.NEW_USER)
    kernel.map_user(0, user, 0, group)


def _mounts() -> None:
    kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_UTS)
    kernel.keep_mounts_private()
    kernel.bind_file("/etc/hosts", "/etc/hosts")
    socket.sethostname("trial")


def _veth() -> None:
    from pyroute2 import IPRoute

    with IPRoute() as links:
        links.link("add", ifname="trial-0", kind="veth", peer={"ifname": "trial-1"})


def _queue(kind: str, **words: Any) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as links:
        index = links.link_lookup(ifname="trial-0")[0]
        links.tc("add", kind, index=index, handle=0x10000, **words)
        links.tc("del", index=index, parent=0xFFFFFFFF)


def _nftables() -> None:
    from simulator.helpers.hosts.filters import Filters

    Filters().watch("trial-0").lose(0.5)


if __name__ == "__main__":
    main()
