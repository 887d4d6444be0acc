"""What all ways to machines have in common: at the end of each stream a site, and what is tried before a first run."""

from __future__ import annotations

import abc
import contextlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from simulator.errors import LockstepError, UsageError
from simulator.machines.far.checks import FILES, explained, find_addresses, prepare_files, same_versions
from simulator.machines.far.lease import Lease, LeaseWatch
from simulator.machines.far.machine import FarMachine
from simulator.machines.far.wire import SiteStream
from simulator.machines.local.scratch import make_scratch, remove_scratch
from simulator.machines.placement import at_once

_MEET_SECONDS_MAX = 60.0
_PULL_SECONDS_MAX = 30.0
_SAID_CHARACTERS_MAX = 600
MOST = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(kw_only=True)
class Sites(abc.ABC):
    """An engine whose machines are sites behind streams.

    Attributes:
        names: of the machines, in the order in which tasks are given to them.
        files: `shared`: the working directory is the same on all; `ship`: its files are sent.
        python: the interpreter on the machines.
        cable: a command of this machine that pulls the cable of one, with `{}` for its name; None where nobody can.
        lease: times after which a machine that is not heard is given up.
    """

    names: tuple[str, ...]
    files: str = FILES[0]
    python: str = sys.executable
    cable: tuple[str, ...] | None = None
    lease: Lease = field(default_factory=Lease)
    machines: tuple[FarMachine, ...] = ()

    def __post_init__(self) -> None:
        if self.files not in FILES:
            raise UsageError(f"files={self.files!r} is not known; accepted are {', '.join(FILES)}")

    @property
    def key(self) -> tuple[object, ...]:
        """The same for two engines that reach the same machines in the same way."""
        return type(self), self.names, self.python, self.cable, self.lease, str(Path.cwd())

    @abc.abstractmethod
    def _reach(
        self, directory: Path, site: Sequence[str], stack: contextlib.ExitStack
    ) -> Iterator[tuple[str, SiteStream]]:
        """Start a site on each machine; its name, and the stream to it.

        Args:
            directory: for files of the engine's own.
            site: the command of a site, of words that need no quotes for any shell.
            stack: what is to be done when all machines have been let go.

        Raises:
            MachinesUnavailable: one cannot be reached.
        """

    def __enter__(self) -> Sequence[FarMachine]:
        """Reach the machines.

        Raises:
            MachinesUnavailable: one cannot be reached, or cannot be used; nothing is left of the others then.
            UsageError: the working directory cannot be had there.
        """
        site = [self.python, "-u", "-m", "_lockstep.site", f"{self.lease.every:g}", f"{self.lease.seconds:g}"]
        with contextlib.ExitStack() as stack:
            directory = make_scratch("machines")
            stack.callback(remove_scratch, directory)
            afterwards = stack.enter_context(contextlib.ExitStack())
            stack.callback(self._let_go)
            for name, wire in self._reach(directory, site, afterwards):
                pull = None if self.cable is None else partial(self._pull, name)
                self.machines = (*self.machines, FarMachine(name, wire, LeaseWatch(self.lease), pull))
            for machine in self.machines:
                machine.listen(lambda event: None)
            explained(lambda: at_once([partial(machine.meet, _MEET_SECONDS_MAX) for machine in self.machines]))
            same_versions(self.machines)
            explained(lambda: find_addresses(self.machines))
            explained(lambda: prepare_files(self.machines, self.files, Path.cwd(), sys.path))
            self._leave = stack.pop_all().close
        return self.machines

    def __exit__(self, *raised: object) -> None:
        """Let them go."""
        self._leave()

    def _let_go(self) -> None:
        machines, self.machines = self.machines, ()
        at_once([machine.leave for machine in machines])

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


def words_of(command: str, option: str) -> tuple[str, ...]:
    """The words of a command that is run here.

    Raises:
        UsageError: it is none, or there is no such program.
    """
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"{option}: {command!r} is no command: {error}") from error
    if shutil.which(words[0]) is None:
        raise UsageError(f"{option}: {words[0]!r} is not a program that can be run here; is it on PATH?")
    return words


def names_of(listed: str, form: str) -> tuple[str, ...]:
    """The names in `NAME,NAME`.

    Args:
        listed: that.
        form: how it is to be written, for messages.

    Raises:
        UsageError: one is no name, or is there twice, or there are too many.
    """
    names = tuple(name.strip() for name in listed.split(","))
    for name in names:
        # Not one that a command could take for an option.
        if not _NAME.fullmatch(name):
            raise UsageError(f"--machines: {name!r} is no name of a machine; {form}")
    if len(set(names)) < len(names):
        raise UsageError(f"--machines names {listed} twice; give each machine once")
    if len(names) > MOST:
        raise UsageError(f"--machines has {len(names)} names; {MOST} is the most")
    return names
