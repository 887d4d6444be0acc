"""What several machines must have in common, and how they reach each other: found before any of them gets a task."""

from __future__ import annotations

import contextlib
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path

from simulator.errors import DeadlineExceeded, LockstepError, UsageError
from simulator.machines.far.machine import FarMachine, Way
from simulator.machines.local import facts
from simulator.machines.placement import at_once
from simulator.wire import site

FILES = ("shared", "ship")
_LOOPBACK = "127.0.0.1"
_REACH_SECONDS = 5.0
_SHIPPED_BYTES_MAX = 64 * 2**20
_NOT_SHIPPED = {".git", ".venv", "__pycache__", "node_modules"}


class MachinesUnavailable(LockstepError):
    """Raised before anything starts, when a machine cannot be reached or cannot be used."""


def same_versions(machines: Sequence[FarMachine]) -> None:
    """See to it that all machines have what this one has.

    Raises:
        MachinesUnavailable: one has another Python, TensorFlow or Lockstep; the message names each.
    """
    mine = {
        "Python": facts.python_version(),
        "TensorFlow": facts.tensorflow_version(),
        "Lockstep (its code)": facts.code_digest(),
    }
    wrong = []
    for machine in machines:
        assert machine.up is not None
        there = dict(zip(mine, (machine.up.python, machine.up.tensorflow, machine.up.code), strict=True))
        wrong += [
            f"machine {machine.name} has {what} {there[what] or 'not at all'}, this one {mine[what] or 'not at all'}"
            for what in mine
            if there[what] != mine[what]
        ]
    if wrong:
        raise MachinesUnavailable(
            f"{'; '.join(wrong)}: all machines of a run need the same; install it there, or name another interpreter "
            "(--machines-python)"
        )


def find_addresses(machines: Sequence[FarMachine]) -> None:
    """Give each machine an address by which every other one has reached it, tried now.

    Raises:
        MachinesUnavailable: there is none; the message says who was tried from where.
    """
    if len(machines) == 1:
        up = machines[0].up
        assert up is not None
        machines[0].address = (*up.addresses, _LOOPBACK)[0]
        return
    met = _tried(machines)
    for machine in machines:
        assert machine.up is not None
        common = [
            address
            for address in _offered(machine, machines)
            if all(address in met[other.name][machine.name].split(",") for other in machines if other is not machine)
        ]
        if not common:
            raise MachinesUnavailable(_nobody_reaches(machine, machines, met))
        machine.address = common[0]


def _offered(machine: FarMachine, machines: Sequence[FarMachine]) -> tuple[str, ...]:
    """Where to look for a machine; by its loopback interface only if all of them share that."""
    assert machine.up is not None
    kernels = {each.up.kernel for each in machines if each.up is not None}
    shared = len(kernels) == 1 and "" not in kernels
    return (*machine.up.addresses, _LOOPBACK) if shared else machine.up.addresses


def _tried(machines: Sequence[FarMachine]) -> Mapping[str, Mapping[str, str]]:
    """By machine, the addresses of each other one that it has reached, with commas between."""
    met: dict[str, dict[str, str]] = {}

    def reach(machine: FarMachine) -> None:
        peers = tuple(
            site.Peer(other.name, _offered(other, machines), other.up.port, other.up.token)
            for other in machines
            if other is not machine and other.up is not None
        )
        met[machine.name] = machine.ask(lambda number: site.Reach(number, peers, _REACH_SECONDS)).addresses

    at_once([partial(reach, machine) for machine in machines])
    return met


def _nobody_reaches(machine: FarMachine, machines: Sequence[FarMachine], met: Mapping[str, Mapping[str, str]]) -> str:
    offered = ", ".join(_offered(machine, machines)) or "no address but that of its loopback interface"
    seen = "; ".join(
        f"{other.name} reaches {met[other.name][machine.name] or 'none of them'}"
        for other in machines
        if other is not machine
    )
    return (
        f"machine {machine.name} cannot be reached by every other one: it has {offered}, and {seen}. Tasks connect to "
        "each other by any port above 1024; open these between the machines"
    )


def prepare_files(machines: Sequence[FarMachine], files: str, cwd: Path, path: Sequence[str]) -> None:
    """Have programs found on each machine: by a directory that all share, which is proved, or by sending what is here.

    Args:
        machines: all of them.
        files: one of `FILES`.
        cwd: the working directory here.
        path: where modules are found here.

    Raises:
        UsageError: the directory is too large to be sent.
        MachinesUnavailable: a machine does not see it.
    """
    if files == "ship":
        archive = _packed(cwd)
        below = [Path(each or cwd) for each in path]
        # Modules are found there in the folders in which they are found here.
        sent = tuple(str(each.relative_to(cwd)) for each in below if each.is_relative_to(cwd))
        at_once([partial(_ship, machine, archive, sent) for machine in machines])
        return
    try:
        at_once([partial(_same, machine, cwd) for machine in machines])
    except OSError as error:
        raise UsageError(
            f"whether {cwd} is the same directory on every machine cannot be proved: {error}; use --files ship"
        ) from error
    for machine in machines:
        machine.way = Way(str(cwd), tuple(each or str(cwd) for each in path))


def _same(machine: FarMachine, cwd: Path) -> None:
    if not machine.sees(cwd):
        raise MachinesUnavailable(
            f"machine {machine.name} does not see {cwd} as this one does: a file written here was not found there; "
            "run from a directory that is shared, or send its files with --files ship"
        )


def _ship(machine: FarMachine, archive: bytes, path: tuple[str, ...]) -> None:
    machine.ask(lambda number: site.Ship(number, archive))
    machine.way = Way("", path)


def _packed(cwd: Path) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in _sent(cwd):
            # One that has gone meanwhile is somebody's who is at work here.
            with contextlib.suppress(FileNotFoundError):
                archive.add(path, str(path.relative_to(cwd)), recursive=False)
            if buffer.tell() > _SHIPPED_BYTES_MAX:
                raise UsageError(
                    f"--files ship: {cwd} has more than {_SHIPPED_BYTES_MAX // 2**20} MiB; share it with the machines "
                    "instead, or start from a directory that has the program alone"
                )
    return buffer.getvalue()


def _sent(folder: Path) -> Iterator[Path]:
    """What is sent of a folder, directories before what is in them."""
    entries: list[Path] = []
    with contextlib.suppress(FileNotFoundError):
        entries = sorted(folder.iterdir())
    for entry in entries:
        if entry.name in _NOT_SHIPPED or entry.name.startswith(".lockstep-") or entry.is_symlink():
            continue
        if entry.is_dir():
            yield entry
            yield from _sent(entry)
        elif entry.is_file():
            yield entry


def explained(call: Callable[[], None]) -> None:
    """Make a call before anything has started; that a machine did not answer is an error of that kind, too.

    Raises:
        MachinesUnavailable: it failed.
    """
    try:
        call()
    except (MachinesUnavailable, UsageError):
        raise
    except (DeadlineExceeded, LockstepError, OSError) as error:
        raise MachinesUnavailable(str(error)) from error
