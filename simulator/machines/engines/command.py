"""Machines behind a command that starts a process on one and joins its streams: `srun`, `ssh`, `kubectl exec -i`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.errors import UsageError
from simulator.machines.engines.sites import Sites, names_of, words_of
from simulator.machines.far.checks import MachinesUnavailable
from simulator.machines.far.wire import CommandWire, SiteStream

FORM = "write a command with {} for the name, a colon, and names: --machines 'ssh {}:m0,m1'"


@dataclass(kw_only=True)
class Commands(Sites):
    """An engine: one command for each machine.

    Attributes:
        argv: the command, with `{}` in it where the name of a machine goes.
    """

    argv: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, **options: Any) -> Commands:
        """What `COMMAND {}:NAME,NAME` asks for, checked before anything starts; `options` are those of `Sites`.

        Raises:
            UsageError: it is not of that form, or there is no such program here.
        """
        command, colon, listed = text.rpartition(":")
        if not colon or "{}" not in command:
            raise UsageError(f"--machines {text!r} is not understood; {FORM}")
        names = names_of(listed, FORM)
        return cls(argv=words_of(command, "--machines"), names=names, **options)

    @property
    def key(self) -> tuple[object, ...]:
        """As of `Sites`."""
        return (*super().key, self.argv)

    def _reach(
        self, directory: Path, site: Sequence[str], stack: contextlib.ExitStack
    ) -> Iterator[tuple[str, SiteStream]]:
        for name in self.names:
            words = [word.replace("{}", name) for word in self.argv]
            try:
                yield name, CommandWire([*words, *site], directory / f"{name}.stderr")
            except OSError as error:
                raise MachinesUnavailable(f"machine {name} cannot be reached: {error}") from error
