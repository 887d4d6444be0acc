"""The part of one run that is this machine's: its own local machinery, for a run that is elsewhere."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dill

from simulator.agent.private_files import machine_view
from simulator.errors import UsageError
from simulator.helpers.warden import remove_tree
from simulator.launch.environment import local_start
from simulator.launch.functions import Functions
from simulator.launch.programs import Programs
from simulator.launch.protocol import Launcher
from simulator.machines.local.machine import LocalMachine
from simulator.machines.local.private_files import private_files
from simulator.machines.protocol import LEFT, Event, MachineShare
from simulator.site.file_stream import FileStream
from simulator.site.relaying import Relaying
from simulator.wire import site as wire
from simulator.wire.events import Who


@dataclass
class LocalRun:
    """What is going on here for a run.

    Attributes:
        directory: for the logs and stacks of its tasks.
        machine: the local machinery.
        following: sends what tasks write.
        addresses: `host:port` of each task's server.
        tasks: all of them.
        relaying: their relay, if there is one.
        held: what is held until the end: the view of the files in which they write, if they have one.
    """

    directory: Path
    machine: LocalMachine
    following: FileStream
    addresses: Mapping[str, str]
    tasks: tuple[str, ...]
    relaying: Relaying | None = None
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @classmethod
    def of(
        cls,
        asked: wire.Open,
        directory: Path,
        cwd: str,
        hear: Callable[[Event], None],
        say: Callable[[wire.FromSite], None],
    ) -> LocalRun:
        """Get ready for tasks.

        Raises:
            UsageError: there is no such working directory, or no such program.
            PortsUnavailable: no port could be held.
            PrivateFilesUnavailable: its tasks are to have a view of the files of their own, and cannot.
        """
        if not Path(cwd).is_dir():
            raise UsageError(f"there is no directory {cwd} there; share it, or use --files ship")
        os.chdir(cwd)
        places = [str(Path(cwd, place)) for place in asked.path]
        sys.path += [place for place in places if place not in sys.path and Path(place).exists()]
        found = dill.loads(asked.launcher)  # noqa: S301 - from who has started this process
        launcher = _placed(found, "" if asked.cwd else cwd)
        for name in ("logs", "stacks", LEFT):
            (directory / name).mkdir(parents=True)
        with contextlib.ExitStack() as held:
            variables: dict[str, str] = {}
            if isinstance(launcher, Functions) and launcher.private is not None:
                view = held.enter_context(private_files(map(Path, launcher.private), [directory]))
                variables = machine_view(view.holder, view.covered, view.written)
            machine = LocalMachine(directory, local_start(launcher, variables), address=asked.address)
            machine.listen(hear)
            addresses = machine.open(MachineShare(asked.tasks, asked.networked))
            following = FileStream(directory, asked.tasks, say)
            return cls(directory, machine, following, addresses, asked.tasks, held=held.pop_all())

    def answer(self, message: wire.ToSite, request: int) -> wire.FromSite:
        """Do what is asked for."""
        left: tuple[Who, ...] = ()
        text = ""
        if isinstance(message, wire.Launch):
            self.machine.launch(message.specs)
        elif isinstance(message, wire.Send):
            self.machine.send(message.who, message.data)
        elif isinstance(message, wire.Signal):
            self.machine.signal(message.who, message.number, message.to)
        elif isinstance(message, wire.Ask):
            text = self.machine.half_said(message.who)
        elif isinstance(message, wire.EndTasks):
            left = tuple(self.machine.end(message.who, message.grace, message.seconds))
        return wire.CallDone(request, 0.0, left=left, text=text)

    def relay(self, asked: wire.StartRelay, say: Callable[[wire.FromSite], None]) -> wire.FromSite:
        """Start a relay."""
        self.relaying = Relaying(asked, say)
        return wire.CallDone(asked.request, 0.0, ports=self.relaying.ports, chained=self.relaying.chained)

    def end_all(self) -> None:
        """SIGKILL everything that belongs to the run, at once."""
        self.machine.end_all()
        self.machine.close()

    def close(self) -> Sequence[int]:
        """The run is over, and all of its tasks have ended: what was left of them is killed, files are removed."""
        self.following.close()
        if self.relaying is not None:
            self.relaying.close()
        pids = self.machine.close()
        self.held.close()
        remove_tree(self.directory)
        return pids

    @staticmethod
    def unpacked(archive: bytes, folder: Path) -> Path:
        """A new folder with these files."""
        remove_tree(folder)
        folder.mkdir()
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            # PEP 706: Python 3.11.0 to 3.11.3 and 3.10.0 to 3.10.11 know no filter, and ignore this.
            files.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
            files.extractall(folder)  # noqa: S202 - it comes from the process that has started this one
        return folder


def _placed(launcher: Any, folder: str) -> Launcher:
    """A program runs where it was to run, or in the folder of files that were sent; it has to be found here."""
    if isinstance(launcher, Programs):
        return Programs.of(launcher.argv, folder or launcher.cwd, launcher.steps)
    found: Launcher = launcher
    return found
