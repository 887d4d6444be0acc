"""Which kernel namespaces and traffic shapers work here, found by really trying them in a child process.

Reading kernel settings is not enough: containers, seccomp and security modules refuse what the settings allow. The
child enters the namespaces and exits, so nothing outlives it.
"""

from __future__ import annotations

import json
import subprocess
import sys

__all__ = ["TRIALS", "try_namespaces"]

TRIALS = ("user_namespaces", "network_namespaces", "pid_namespaces", "tun", "tbf", "netem")
_SECONDS_MAX = 10.0

# Runs isolated, with the standard library only; `unshare` comes through ctypes because `os` has it from Python 3.12 on.
# Prints one JSON line: trial -> "" where it works, else why it does not.
_CHILD = r"""
import ctypes, fcntl, json, os, shutil, struct, subprocess
libc = ctypes.CDLL(None, use_errno=True)
outcome = {}
NEWUSER, NEWNET, NEWPID = 0x10000000, 0x40000000, 0x20000000
def unshare(flag):
    return "" if libc.unshare(flag) == 0 else "unshare: " + os.strerror(ctypes.get_errno())
def write(path, text):
    with open(path, "w") as file:
        file.write(text)
def user():
    uid, gid = os.getuid(), os.getgid()
    problem = unshare(NEWUSER)
    if problem:
        return problem
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"0 {uid} 1")
    write("/proc/self/gid_map", f"0 {gid} 1")
    return ""
def tun():
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, 0x400454CA, struct.pack("16sH22x", b"probe0", 0x1001))
    os.close(descriptor)
    return ""
def shaper(*words):
    program = shutil.which("tc")
    if program is None:
        return "tc (package iproute2) is not installed"
    command = [program, "qdisc", "replace", "dev", "lo", "root", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3)
    return "" if done.returncode == 0 else "tc: " + (done.stderr.strip().splitlines() or ["failed"])[-1]
def attempt(name, trial, *arguments):
    try:
        outcome[name] = trial(*arguments)
    except Exception as error:
        outcome[name] = f"{type(error).__name__}: {error}"
attempt("user_namespaces", user)
if not outcome["user_namespaces"]:
    attempt("network_namespaces", unshare, NEWNET)
if outcome.get("network_namespaces") == "":
    attempt("tun", tun)
    attempt("tbf", shaper, "tbf", "rate", "1mbit", "burst", "32kbit", "latency", "400ms")
    attempt("netem", shaper, "netem", "delay", "1ms")
# Last: once the first process of a new pid namespace has ended, this one cannot start another.
if not outcome["user_namespaces"]:
    attempt("pid_namespaces", unshare, NEWPID)
print(json.dumps(outcome), flush=True)
os._exit(0)
"""


def try_namespaces() -> dict[str, str]:
    """Return, for each of `TRIALS`, an empty string where it works and the reason where it does not."""
    untried = dict.fromkeys(TRIALS, "needs a user and a network namespace, and this machine gave none")
    if not sys.platform.startswith("linux"):
        return dict.fromkeys(TRIALS, f"namespaces are a Linux feature; this is {sys.platform}")
    command = [sys.executable, "-I", "-S", "-c", _CHILD]
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
