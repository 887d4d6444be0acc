"""A real Ray cluster over the machines of the lab: a head on the first, which gets no work, and a raylet on each."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.simulator.lab.keeper import address
from tests.simulator.lab.machines import Lab

# On two busy cores a head and two nodes were there after 18 s.
_UP_SECONDS_MAX = 120.0
_STORE_BYTES = 80 * 10**6


@dataclass
class Raylets:
    """The cluster; whoever drives it has to be on the first machine."""

    lab: Lab
    token: str

    def on(self, machine: int, *argv: str, token: str | None = None) -> Sequence[str]:
        """A command of this machine that runs another one on a machine of the lab, as its users there would."""
        given = {
            "RAY_ADDRESS": f"{address(0)}:6379",
            # Who comes without the token is turned away.
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token if token is None else token,
            "RAY_USAGE_STATS_ENABLED": "0",
            # In a user namespace nobody may take a better place than Ray has given.
            "RAY_worker_niceness": "0",
        }
        words = [f"{name}={value}" for name, value in given.items()]
        dial = [sys.executable, "-m", "tests.simulator.lab.dial", str(self.lab.keeper.pid), f"m{machine}"]
        return [*dial, "env", *words, *argv]

    def start(self, machine: int) -> subprocess.Popen[bytes]:
        """A raylet there, which ends with its machine."""
        ray = str(Path(sys.executable).parent / "ray")
        node = [f"--node-ip-address={address(machine)}", f"--object-store-memory={_STORE_BYTES}", "--block"]
        head = ["--head", "--port=6379", "--num-cpus=0", "--include-dashboard=false"]
        where = head if machine == 0 else [f"--address={address(0)}:6379", "--num-cpus=1"]
        with (self.lab.shared / f"ray-{machine}.log").open("wb") as log:
            command = self.on(machine, ray, "start", *where, *node)
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)


@contextlib.contextmanager
def raylets(lab: Lab) -> Iterator[Raylets]:
    """A cluster over all machines of a lab, which nobody has used yet."""
    made = Raylets(lab, secrets.token_hex(16))
    with contextlib.ExitStack() as stack:
        for machine in range(lab.count):
            process = stack.enter_context(made.start(machine))
            stack.callback(process.kill)
            if machine == 0:
                _wait(made, 1)
        _wait(made, lab.count)
        yield made


def _wait(made: Raylets, count: int) -> None:
    command = made.on(0, sys.executable, "-m", __name__, str(count))
    seconds = _UP_SECONDS_MAX + 10
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=seconds, check=False)
    assert done.stdout.strip() == "there", f"{count} nodes of Ray to start: {done.stderr[-2000:]}"


def main(count: int) -> None:
    """Say `there` when the cluster of this machine has so many nodes."""
    import ray

    deadline = time.monotonic() + _UP_SECONDS_MAX
    pause = threading.Event()
    said: Any = None
    while time.monotonic() < deadline:
        try:
            ray.init(address="auto", logging_level="critical", log_to_driver=False, ignore_reinit_error=True)
            if sum(node["Alive"] for node in ray.nodes()) == count:
                os.write(1, b"there\n")
                return
        except ConnectionError as error:
            said = error
        pause.wait(0.2)
    sys.exit(f"not within {_UP_SECONDS_MAX:g} s: {said}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
