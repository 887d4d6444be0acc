"""A job of `lockstep run` as files: what was asked for, which is enough to run it again, and what came of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from harness.cli._json import encoded
from harness.damaged_files import reading
from simulator import Cluster, FaultPlan, UsageError
from simulator.out import NotKept, OutDirectory

_RUN, _PLAN = FILES = "run.json", "plan.toml"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What `lockstep run` was asked for, besides the plan.

    Attributes:
        command: program and arguments.
        cwd: where it ran.
        steps: how its steps were to be counted.
        restarts: how many restarts it may have.
        restart_policy: what a failure restarts, None for the default of the topology.
        timeout: seconds for the job, None for no limit.
        network: what joins its tasks, None for loopback.
        machines: where they run, None for here.
        place: task to machine.
        files: how programs are found there.
        machines_python: the interpreter there.
        machines_cable: what pulls the cable of one.
        in_hex: the bytes of `cwd` and `command`, only where they are not UTF-8, which JSON cannot hold.
    """

    command: tuple[str, ...]
    cwd: str
    steps: str = "auto"
    restarts: int = 0
    restart_policy: str | None = None
    timeout: float | None = None
    network: str | None = None
    machines: str | None = None
    place: dict[str, str] = {}
    files: str | None = None
    machines_python: str | None = None
    machines_cable: str | None = None
    in_hex: tuple[str, ...] = ()

    def in_text(self) -> Job:
        """What can be written as JSON without a loss."""
        words = [os.fsencode(word) for word in (self.cwd, *self.command)]
        if all(word.decode(errors="replace").encode() == word for word in words):
            return self
        return msgspec.structs.replace(self, in_hex=tuple(word.hex() for word in words))

    def in_bytes(self) -> Job:
        """What it was before `in_text`.

        Raises:
            ValueError: that did not make it.
        """
        if not self.in_hex:
            return self
        cwd, *command = (os.fsdecode(bytes.fromhex(word)) for word in self.in_hex)
        return msgspec.structs.replace(self, cwd=cwd, command=tuple(command), in_hex=())

    def cluster(self, plan: FaultPlan, *, out: Path | None, stream: bool, tf_log: bool = False) -> Cluster:
        """The cluster that carries it out; `plan` is expanded and names its topology."""
        assert plan.topology is not None
        return Cluster(
            plan.topology,
            timeout=self.timeout or float("inf"),
            preload=(),
            out=out,
            stream=stream,
            tf_log=tf_log,
            restarts=self.restarts,
            restart_policy=self.restart_policy,
            faults=plan,
            network=self.network,
            machines=self.machines,
            place=self.place,
            files=self.files,
            python=self.machines_python,
            cable=self.machines_cable,
        )


class _Saved(msgspec.Struct):
    """What is needed of `run.json`; the outcome has more."""

    job: Job
    ended_well: bool | None
    root_cause: dict[str, Any] | None = None
    error: str | None = None


def save_job(directory: Path, job: Job, plan: FaultPlan, outcome: dict[str, Any]) -> None:
    """Write the expanded plan and `run.json`, which has the keys of the outcome and the job under `job`.

    Raises:
        NotKept: they cannot be written.
    """
    text = msgspec.json.format(encoded({**outcome, "job": job.in_text()}))
    try:
        for name, data in ((_PLAN, plan.to_toml().encode()), (_RUN, text + b"\n")):
            new = directory / f"{name}.new"
            new.write_bytes(data)
            new.replace(directory / name)  # whoever is killed meanwhile leaves the whole of one or the other
    except OSError as error:
        raise NotKept(directory, error) from error


def check_place(directory: Path) -> None:
    """Fail, and change nothing, if the directory of `--out` is not for a job.

    Raises:
        UsageError: it holds something else, or cannot be written to.
    """
    OutDirectory(directory, option="--out").check()


def make_place(directory: Path) -> None:
    """Make the directory of a job.

    Raises:
        UsageError: as of `check_place`.
    """
    OutDirectory(directory, option="--out").make()


def renew_place(directory: Path) -> None:
    """Remove an earlier job: what that has left must not be taken for the next one's. The caller keeps others out.

    Raises:
        UsageError: something is in the way.
    """
    OutDirectory(directory, option="--out").renew("0", _RUN, _PLAN, f"{_RUN}.new", f"{_PLAN}.new")


def load_job(directory: Path) -> tuple[Job, FaultPlan, dict[str, Any]]:
    """Read a job, its expanded plan and its outcome.

    Raises:
        UsageError: the directory holds no such job; the message says what it holds instead.
    """
    if not (directory / _RUN).exists() or not (directory / _PLAN).exists():
        raise UsageError(_what_else(directory))
    with reading(directory / _RUN):
        outcome = msgspec.json.decode((directory / _RUN).read_bytes())
        job = msgspec.convert(outcome, _Saved).job.in_bytes()
    if not job.command:
        raise UsageError(f"{directory / _RUN} is damaged: it names no command")
    plan = FaultPlan.load(directory / _PLAN)
    if plan.topology is None:
        raise UsageError(f"{directory / _PLAN} names no topology, so it is not the expanded plan of a run")
    return job, plan, outcome


def _what_else(directory: Path) -> str:
    from harness.report.timeline import journals
    from harness.run_directory import VERDICT

    if (directory / VERDICT).exists():
        return f"{directory} holds a run of `lockstep verify`; judge it again with `lockstep report {directory}`"
    if journals(directory):
        return (
            f"{directory} holds a run of functions (Cluster.run), and the functions themselves are not saved, so it "
            "cannot be replayed; run the Python program again that made it, with the same plan and seed"
        )
    return f"{directory} holds no job; make one with `lockstep run --out {directory} ... -- COMMAND`"
