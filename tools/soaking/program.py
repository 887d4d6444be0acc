"""A job's program for the soak: `python program.py KIND WHICH AT STEPS PAUSE`, run in every task.

Worker WHICH does at its step AT what KIND says; all others make their steps. No kind writes a traceback, so that each
one that is seen is Lockstep's.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import simulator

KIND, (WHICH, AT, STEPS), PAUSE = sys.argv[1], map(int, sys.argv[2:5]), float(sys.argv[5])
CONFIG = json.loads(os.environ["TF_CONFIG"])
ME = CONFIG["task"]["index"]


def daemon(environ):
    """Start a process that has left parent, group and session."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 3)
            os.execve("/bin/sleep", ["sleep", "300"], environ)  # noqa: S606 - no shell has to be between
        os._exit(0)
    os.wait()


def leave_files():
    """Leave files, and folders that may not be changed, where temporary files belong."""
    folder = Path(tempfile.mkdtemp())
    (folder / "file").write_bytes(bytes(1000))
    folder.chmod(0o500)


def turn_deaf():
    """Take no notice of signals that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def once():
    """Whether this task is here for the first time in this job."""
    mark = Path(f"was-here-{ME}")
    if mark.exists():
        return False
    mark.touch()
    return True


DOES = {
    "steps": lambda: None,
    "talks": lambda: None,
    "exits": lambda: os._exit(7),
    "exits_once": lambda: os._exit(7) if once() else None,
    "crashes": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hangs": lambda: time.sleep(300),
    "stops": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "returns": lambda: os._exit(0),
    "daemon": lambda: daemon(dict(os.environ)),
    "bare_daemon": lambda: daemon({}),
    "child": lambda: subprocess.Popen(["sleep", "300"]),
    "closes": lambda: os.closerange(3, 256),
    "deaf": turn_deaf,
    "noisy": lambda: print("x" * 300_000),
    "empties": lambda: shutil.rmtree(tempfile.gettempdir()),
    "leaves_files": leave_files,
}


def connected():
    """The connection between the first two workers, through the relay if there is one; None in others."""
    host, _, port = CONFIG["cluster"]["worker"][1].rpartition(":")
    if ME == 1:
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("", int(port)))
        server.listen()
        return server.accept()[0]
    return dialled(host, int(port)) if ME == 0 else None


def dialled(host, port):
    """Connect when the other one listens."""
    from urllib.parse import urlsplit

    from simulator.helpers.relay.door import request

    proxy = os.environ.get("grpc_proxy")  # noqa: SIM112 - the name that gRPC reads
    while True:
        try:
            if proxy is None:
                return socket.create_connection((host, port))
            found = urlsplit(proxy)
            connection = socket.create_connection((found.hostname, found.port))
            connection.sendall(request(f"{host}:{port}", found.password))
            if b" 200 " in connection.recv(100):
                return connection
            connection.close()
        except OSError:
            pass
        time.sleep(0.01)


def talk(connection):
    """Four kilobytes there, and a byte back."""
    if connection is None:
        return
    if ME == 0:
        connection.sendall(bytes(4000))
        if not connection.recv(1):
            os._exit(9)
        return
    left = 4000
    while left:
        got = len(connection.recv(left))
        if not got:
            os._exit(9)
        left -= got
    connection.sendall(b"!")


CONNECTION = connected() if KIND == "talks" else None
for number in range(1, STEPS + 1):
    time.sleep(PAUSE)
    talk(CONNECTION)
    simulator.step()
    if number == AT and ME == WHICH:
        DOES[KIND]()
