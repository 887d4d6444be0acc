"""`lockstep replay`: a saved job once more, with the same plan, and whether the same happened."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harness.cli._exits import Exit, command
from harness.cli._job import carry_out
from harness.cli._json import encoded
from harness.cli._options import machines_options, out_option, placing, timeout_option
from harness.cli._saved_job import Job, check_place, load_job
from harness.cli._terminal_width import show
from harness.cli._trust import confirm_command
from simulator import UsageError

if TYPE_CHECKING:
    from harness.report.history import Deviation, History

_EPILOG = """\b
Examples:
  lockstep run --worker 3 --fault kind=kill,task=worker:1,step=20 --restarts 1 --out runs/7 -- python train.py
  lockstep replay runs/7
  lockstep replay runs/7 --out runs/7-again --timeout 300
  lockstep replay runs/7 --machines 'ssh {}:m0,m1'

\b
Exit codes:
  0  the same history: every step, point of a checkpoint and fault
  1  another history; the first difference is printed
  2  usage error
  3  the run failed in another way than the saved one
  4  this machine gives no hosts, and the saved run had some; a machine cannot be used
  130  interrupted
"""


@command(epilog=_EPILOG)
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@timeout_option("Seconds for the job.  [default: as saved]")
@machines_options
@out_option("Keep the second run in DIR.")
@click.option("--json", "as_data", is_flag=True, help="Print the comparison as JSON.")
@click.option("--quiet", is_flag=True, help="Say nothing while it runs; the outcome is shown.")
@click.option("--yes", "sure", is_flag=True, help="Run the command found in DIR also where DIR is not yours.")
def replay(directory: Path, out: Path | None, **options: Any) -> int:
    """Run a saved job again, and say whether the same happened.

    DIR is what `lockstep run --out DIR` has written. This runs the command that is found there, as you: where DIR or
    what is in it belongs to somebody else, or others may write to it, the command is shown first and has to be
    confirmed. The same command runs in the same directory, with the saved expanded plan, so nothing is drawn again; the
    environment is yours, and so are the machines if you name others than the saved ones. Compared are, for each task in
    its own order, its steps, its saves and restores, the points of checkpoints that it stopped at, and the faults.
    """
    from simulator.machines.local.scratch import scratch

    if out is not None and out.resolve() == directory.resolve():
        raise UsageError(f"--out {out} would write over the run that is to be replayed")
    if out is not None:
        check_place(out)
    with scratch("replay") if out is None else nullcontext(out) as place:
        return _replay(directory, place, options)


def _replay(directory: Path, out: Path, options: dict[str, Any]) -> int:
    from harness.damaged_files import reading
    from harness.report.history import first_difference, history
    from harness.report.timeline import read_timeline
    from simulator import HostsUnavailable
    from simulator.machines.far.checks import MachinesUnavailable

    job, plan, before = load_job(directory)
    job = _changed(job, options)
    confirm_command(directory, job, sure=options["sure"])
    source = directory / "0" / "journal.jsonl"
    saved = read_timeline(source)
    with reading(source):
        then = history(source)
    cluster = job.cluster(plan, out=out, stream=not options["quiet"])
    done = carry_out(cluster, job, plan, out=out, quiet=options["quiet"])
    if done.not_kept is not None:
        raise done.not_kept
    failure, outcome = done.failure, done.data
    wrong = _failed_otherwise(before, outcome)
    journal = out / "0" / "journal.jsonl"
    # A cluster that could not be started has none.
    now = history(journal if journal.exists() else ())
    difference = first_difference(then, now, saved)
    _show(wrong, difference, now, outcome, as_data=options["as_data"])
    if wrong is not None:
        return Exit.LACKING if isinstance(failure, (HostsUnavailable, MachinesUnavailable)) else Exit.FAILED
    return Exit.FINE if difference is None else Exit.INCONSISTENT


def _changed(job: Job, options: dict[str, Any]) -> Job:
    """The job with what was asked for this time."""
    asked = {name: value for name, value in placing(options).items() if value}
    if "machines" in asked:
        # Names, paths and commands that were given with the saved machines are of those.
        asked = placing(options)
    if options["timeout"] is not None:
        asked["timeout"] = options["timeout"]
    return msgspec.structs.replace(job, **asked)


def _failed_otherwise(before: dict[str, Any], outcome: dict[str, Any]) -> str | None:
    """How this run failed, if the saved one did not fail in this way. Which of several peers fails first is chance."""
    cause, earlier = outcome["root_cause"] or {}, before.get("root_cause") or {}
    if outcome["ended_well"] or (before["ended_well"] is False and cause.get("kind") == earlier.get("kind")):
        return None
    if before["ended_well"] is None:
        saved = "did not come to its end"
    else:
        saved = "ended well" if before["ended_well"] else f"failed with {earlier.get('kind') or before['error']}"
    return f"the saved run {saved}, this one failed: {outcome['error']}"


def _show(
    wrong: str | None, difference: Deviation | None, now: History, outcome: dict[str, Any], *, as_data: bool
) -> None:
    if as_data:
        told = {"same": wrong is None and difference is None, "difference": difference, "failure": wrong}
        click.echo(encoded({**told, "history": now, "outcome": outcome}))
        return
    if wrong is not None:
        show(wrong, err=True)
    if difference is not None:
        show(f"different: {difference}")
    elif wrong is None:
        steps = sum(entry.startswith("step ") for entries in now.values() for entry in entries)
        kept = sum(entry.startswith(("saved ", "restored ")) for entries in now.values() for entry in entries)
        faults = sum(": fired" in entry for entry in now["plan"])
        counts = f"{steps} steps, {kept} saves and restores, {faults} faults"
        show(f"the same history: {len(now) - 1} tasks, {counts}")
