"""Real commands that lead to machines: sshd and slurmd, on this machine, for as long as a context is open."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import portpicker
import pytest

from tests.simulator._wire import eventually

NAMES = ("m0", "m1", "m2")
# Where Debian has what only root is meant to start.
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def _programs(*names: str) -> list[str]:
    found = [shutil.which(name, path=_PATH) for name in names]
    if missing := [name for name, place in zip(names, found, strict=True) if place is None]:
        pytest.skip(f"there is no {', '.join(missing)} on this machine")
    return [place for place in found if place is not None]


def _done(*command: str, **environ: str) -> bool:
    return subprocess.run(command, capture_output=True, env={**os.environ, **environ}, check=False).returncode == 0


@contextlib.contextmanager
def _serving(directory: Path, *commands: list[str]) -> Iterator[None]:
    """These in the foreground, and at the end, whatever has happened, no more."""
    with contextlib.ExitStack() as stack:
        for number, command in enumerate(commands):
            log = stack.enter_context((directory / f"{number}.log").open("w"))
            process = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
            stack.callback(process.terminate)
        yield


@contextlib.contextmanager
def ssh(directory: Path) -> Iterator[str]:
    """A server of ssh, by keys of its own; what leads to the machines."""
    sshd, client, keygen = _programs("sshd", "ssh", "ssh-keygen")
    directory.chmod(0o700)
    for name in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)
    port = portpicker.pick_unused_port()
    (directory / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {directory}/host\nAuthorizedKeysFile {directory}/user.pub\n"
        "PasswordAuthentication no\nStrictModes no\nUsePAM no\nPidFile none\n"
    )
    (directory / "config").write_text(
        f"Host *\nHostName 127.0.0.1\nPort {port}\nUser {getpass.getuser()}\nIdentityFile {directory}/user\n"
        f"IdentitiesOnly yes\nBatchMode yes\nStrictHostKeyChecking no\nUserKnownHostsFile {directory}/known\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    command = f"{client} -F {directory}/config {{}}"
    with _serving(directory, [sshd, "-D", "-e", "-f", str(directory / "sshd_config")]):
        eventually(lambda: _done(*command.format("m0").split(), "true"), "sshd to answer")
        yield f"{command}:{','.join(NAMES)}"


@contextlib.contextmanager
def slurm(directory: Path) -> Iterator[str]:
    """A controller of Slurm with a daemon for each machine; what leads to these, outside of any allocation."""
    controller, daemon, srun, info = _programs("slurmctld", "slurmd", "srun", "sinfo")
    if os.geteuid() != 0:
        pytest.skip("slurmd is started by root alone")
    ports = [portpicker.pick_unused_port() for _ in range(len(NAMES) + 1)]
    host = socket.gethostname()
    nodes = [
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 State=UNKNOWN"
        for name, port in zip(NAMES, ports[1:], strict=True)
    ]
    for name in ("state", *(f"spool-{name}" for name in NAMES)):
        (directory / name).mkdir()
    config = directory / "slurm.conf"
    lines = [
        "ClusterName=lab",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={ports[0]}",
        # Nobody else is there; munge would have to be started for the whole machine.
        "AuthType=auth/none",
        "CredType=cred/none",
        "MpiDefault=none",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SwitchType=switch/none",
        "SelectType=select/linear",
        "SlurmUser=root",
        "SlurmdUser=root",
        f"StateSaveLocation={directory}/state",
        f"SlurmdSpoolDir={directory}/spool-%n",
        f"SlurmctldPidFile={directory}/controller.pid",
        f"SlurmdPidFile={directory}/%n.pid",
        *nodes,
        f"PartitionName=all Nodes={','.join(NAMES)} Default=YES MaxTime=INFINITE State=UP",
    ]
    config.write_text("\n".join(lines) + "\n")
    daemons = [[daemon, "-D", "-f", str(config), "-N", name] for name in NAMES]
    with _serving(directory, [controller, "-D", "-f", str(config)], *daemons):
        asked = [info, "-h", "-t", "idle", "-o", "%D"]

        def ready() -> bool:
            environ = {**os.environ, "SLURM_CONF": str(config)}
            done = subprocess.run(asked, capture_output=True, text=True, env=environ, check=False)
            return done.stdout.strip() == str(len(NAMES))

        eventually(ready, "the nodes of Slurm to be idle")
        yield f"env SLURM_CONF={config} {srun} -u -N1 -n1 -w {{}}:{','.join(NAMES)}"
