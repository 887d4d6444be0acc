"""Machines behind a command that starts a process on one and joins its streams: `srun`, `ssh`, `kubectl exec -i`."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from simulator.errors import LockstepError, UsageError
from simulator.machines.far.checks import (
    FILES,
    MachinesUnavailable,
    explained,
    find_addresses,
    prepare_files,
    same_versions,
)
from simulator.machines.far.lease import Lease, Watch
from simulator.machines.far.machine import FarMachine
from simulator.machines.far.wire import CommandWire
from simulator.machines.local.scratch import make_scratch, remove_scratch
from simulator.machines.placement import at_once

__all__ = ["Commands", "engine_of"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST = 64
_MEET_SECONDS_MAX = 60.0
_PULL_SECONDS_MAX = 30.0
_SAID_CHARACTERS_MAX = 600


@dataclass
class Commands:
    """An engine: one command for each machine.

    Attributes:
        argv: the command, with `{}` in it where the name of a machine goes.
        names: of the machines, in the order in which tasks are given to them.
        files: `shared`: the working directory is the same on all; `ship`: its files are sent.
        python: the interpreter on the machines.
        cable: a command of this machine that pulls the cable of one, with `{}` for its name; None where nobody can.
        lease: times after which a machine that is not heard is given up.
    """

    argv: tuple[str, ...]
    names: tuple[str, ...]
    files: str = "shared"
    python: str = sys.executable
    cable: tuple[str, ...] | None = None
    lease: Lease = field(default_factory=Lease)
    machines: tuple[FarMachine, ...] = ()

    @classmethod
    def parse(
        cls, text: str, *, files: str = "shared", python: str | None = None, cable: str | None = None
    ) -> Commands:
        """What `COMMAND {}:NAME,NAME` asks for, checked before anything starts.

        Raises:
            UsageError: it is not of that form, or there is no such program here.
        """
        form = "write a command with {} for the name, a colon, and names: --machines 'ssh {}:m0,m1'"
        command, colon, listed = text.rpartition(":")
        names = tuple(name.strip() for name in listed.split(","))
        if not colon or "{}" not in command:
            raise UsageError(f"--machines {text!r} is not understood; {form}")
        for name in names:
            if not _NAME.fullmatch(name):
                raise UsageError(f"--machines: {name!r} is no name of a machine; {form}")
        if len(set(names)) < len(names):
            raise UsageError(f"--machines names {listed} twice; give each machine once")
        if len(names) > _MOST:
            raise UsageError(f"--machines has {len(names)} names; {_MOST} is the most")
        argv = _words(command, "--machines")
        if cable is not None and "{}" not in cable:
            raise UsageError(f"--machines-cable {cable!r} is not understood; write a command with {{}} for the name")
        if files not in FILES:
            raise UsageError(f"files={files!r} is not known; accepted are {', '.join(FILES)}")
        pull = None if cable is None else _words(cable, "--machines-cable")
        return cls(argv, names, files, python or sys.executable, pull)

    def __enter__(self) -> Sequence[FarMachine]:
        """Reach the machines.

        Raises:
            MachinesUnavailable: one cannot be reached, or cannot be used; nothing is left of the others then.
            UsageError: the working directory cannot be had there.
        """
        self._directory = make_scratch("machines")
        try:
            for name in self.names:
                self.machines = (*self.machines, self._start(name))
            for machine in self.machines:
                machine.listen(lambda event: None)
            explained(lambda: at_once([partial(machine.meet, _MEET_SECONDS_MAX) for machine in self.machines]))
            same_versions(self.machines)
            explained(lambda: find_addresses(self.machines))
            explained(lambda: prepare_files(self.machines, self.files, Path.cwd(), sys.path))
        except BaseException:
            self.__exit__()
            raise
        return self.machines

    def __exit__(self, *raised: object) -> None:
        """Let them go."""
        with contextlib.ExitStack() as stack:
            stack.callback(remove_scratch, self._directory)
            at_once([machine.leave for machine in self.machines])
            self.machines = ()

    def _start(self, name: str) -> FarMachine:
        words = [word.replace("{}", name) for word in self.argv]
        # No word needs quotes, whether a shell reads them there, as behind ssh, or none does.
        site = [self.python, "-u", "-m", "_lockstep.site", f"{self.lease.every:g}", f"{self.lease.seconds:g}"]
        try:
            wire = CommandWire([*words, *site], self._directory / f"{name}.stderr")
        except OSError as error:
            raise MachinesUnavailable(f"machine {name} cannot be reached: {error}") from error
        return FarMachine(name, wire, Watch(self.lease), None if self.cable is None else partial(self._pull, name))

    def _pull(self, name: str) -> None:
        assert self.cable is not None
        words = [word.replace("{}", name) for word in self.cable]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_PULL_SECONDS_MAX, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LockstepError(f"the cable of machine {name} could not be pulled: {error}") from error
        if done.returncode:
            said = done.stderr.strip()[-_SAID_CHARACTERS_MAX:]
            raise LockstepError(
                f"the cable of machine {name} could not be pulled: {shlex.join(words)} ended with exit code "
                f"{done.returncode}{f': {said}' if said else ''}"
            )


def _words(command: str, option: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"{option}: {command!r} is no command: {error}") from error
    if shutil.which(words[0]) is None:
        raise UsageError(f"{option}: {words[0]!r} is not a program that can be run here; is it on PATH?")
    return words


def engine_of(
    machines: str | None,
    *,
    place: Mapping[str, str] | None = None,
    files: str | None = None,
    python: str | None = None,
    cable: str | None = None,
) -> Commands | None:
    """The engine that was asked for; None for this machine alone.

    Raises:
        UsageError: it is not understood, or something is asked of machines where there are none.
    """
    if machines is not None:
        return Commands.parse(machines, files=files or FILES[0], python=python, cable=cable)
    for name, value in (("place", place), ("files", files), ("python", python), ("cable", cable)):
        if value:
            raise UsageError(f"{name} is about machines; give machines as well: machines='ssh {{}}:m0,m1'")
    return None
