"""What a run has to know of the machine on which this process is."""

from __future__ import annotations

import hashlib
import platform
import socket
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from _lockstep.names import HOME

_OWN = ("_lockstep", "simulator")
_DIGITS = 12


def python_version() -> str:
    """Major and minor version of this interpreter: pickles and byte code are not the same in others."""
    return ".".join(platform.python_version_tuple()[:2])


def tensorflow_version() -> str:
    """The installed one, or nothing."""
    for name in ("tensorflow", "tensorflow-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""


def code_digest(*more: str) -> str:
    """Stands for Lockstep's own code: a site and a run of different code would misunderstand each other.

    Args:
        more: packages whose code counts besides that of clusters.
    """
    found = hashlib.sha256()
    for file in sorted(path for package in (*_OWN, *more) for path in (HOME / package).rglob("*.py")):
        found.update(str(file.relative_to(HOME)).encode() + file.read_bytes())
    return found.hexdigest()[:_DIGITS]


def kernel() -> str:
    """The running kernel and the network that this process sees: who has both in common shares a loopback interface."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/net').readlink()}"
    except OSError:
        return ""


def addresses() -> tuple[str, ...]:
    """IPv4 addresses of the network interfaces that are up, but for the loopback one."""
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    found = [
        each.address
        for name, given in psutil.net_if_addrs().items()
        if name in up
        for each in given
        if each.family == socket.AF_INET and not each.address.startswith("127.")
    ]
    return tuple(sorted(found))
