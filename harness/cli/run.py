"""`lockstep run`: an unmodified program as a cluster of processes, with faults and network conditions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harness.cli._exits import Exit, command
from harness.cli._job import as_json, carry_out, summary
from harness.cli._json import encoded
from harness.cli._options import (
    fault_options,
    html_option,
    machines_options,
    network_option,
    out_option,
    placing,
    plan_of,
    restart_options,
    timeout_option,
)
from harness.cli._output_files import again, check_written, write_page
from harness.cli._saved_job import Job, check_place
from harness.cli._terminal_width import show
from harness.report.timeline import timeline_page
from simulator import UsageError

if TYPE_CHECKING:
    from simulator import Cluster, FaultPlan, Topology

_EPILOG = """\b
Examples:
  lockstep run --worker 2 -- python train.py --epochs 3
  lockstep run --devices cpu:2 -- python train.py                       one process with two devices, no TF_CONFIG
  lockstep run --worker 2 --ps 1 -- python train.py
  lockstep run --worker 3 --restarts 1 --fault kind=kill,task=worker:1,step=20 -- python train.py
  lockstep run --worker 3 --link src=worker,dst=worker:0,delay=20ms -- python train.py
  lockstep run --worker 3 --network=namespaces --link src=worker,dst=worker:0,loss=1% -- python train.py
  lockstep run --machines 'ssh {}:m0,m1' --worker 4 -- python train.py   two tasks on each of two machines
  lockstep run --worker 3 --plan faults.toml --seed 7 --dry-run -- python train.py

\b
Exit codes:
  0  the job ended well, after restarts if they were allowed
  2  usage error
  3  the job failed, the root cause is named first; or its outcome could not be kept in DIR
  4  this machine lacks the devices, or gives no hosts for --network=namespaces; a machine cannot be used
  130  interrupted; 143 by SIGTERM, 129 by SIGHUP
"""


@command(epilog=_EPILOG, context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] --")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND...")
@click.option("--worker", type=int, metavar="N", help="Worker tasks.")
@click.option("--ps", type=int, metavar="N", help="Parameter server tasks; a chief is added unless --chief is given.")
@click.option("--chief", type=int, metavar="N", help="Chief tasks, 0 or 1.")
@click.option("--evaluator", type=int, metavar="N", help="Evaluator tasks, 0 or 1; stopped when training has ended.")
@click.option(
    "--devices",
    metavar="cpu:N",
    help="Logical devices of each task, such as cpu:2, gpu:1 or gpu-simulated:2; alone, those of a single process "
    "without TF_CONFIG.  [default: cpu:1]",
)
@fault_options
@network_option
@machines_options
@restart_options("Restarts allowed.", 0)
@click.option(
    "--steps",
    type=click.Choice(["auto", "fit", "gradient", "function", "explicit"]),
    default="auto",
    show_default=True,
    help="What counts as a training step: Keras fit, gradients that are taken, outermost calls of tf.functions, or "
    "simulator.step().",
)
@timeout_option("Seconds for the job.  [default: no limit]")
@out_option("Keep logs, journal and plan in DIR, in place of an earlier run there.")
@html_option("Write the timeline of the run as a page.")
@click.option("--dry-run", is_flag=True, help="Print each TF_CONFIG and the expanded plan; start nothing.")
@click.option("--json", "as_data", is_flag=True, help="Print the outcome as JSON.")
@click.option("--quiet", is_flag=True, help="Say nothing while it runs; the outcome is shown.")
@click.option("--tf-log", is_flag=True, help="Show what TensorFlow writes at its start; log files always have it.")
def run(command: tuple[str, ...], **options: Any) -> int:
    """Run COMMAND, unmodified, in every task of a cluster on this machine, or on several.

    Each task is a process of its own with its own TF_CONFIG and log. The job ends well when every task has ended with
    exit code 0; with ps tasks when the chief has, since the program's servers wait for ever. What the tasks write
    appears on stderr, each line with its task in front.
    """
    from simulator import LockstepError

    try:
        return _run(command, options)
    except KeyboardInterrupt:
        if options["as_data"]:
            unknown = as_json(command, None, None, LockstepError("interrupted"))
            click.echo(encoded({**unknown, "ended_well": None}))
        raise


def _run(command: tuple[str, ...], options: dict[str, Any]) -> int:
    from simulator import HostsUnavailable
    from simulator.hardware import HardwareMissing
    from simulator.launch.programs import Programs
    from simulator.machines.far.checks import MachinesUnavailable
    from simulator.network import default_network

    if not command:
        raise UsageError(
            "there is no command; write it after --, for example: lockstep run --worker 2 -- python train.py"
        )
    command = _of_notebook(command)
    Programs.of(command, steps=options["steps"])
    check_written(options["html"], None)
    plan = plan_of(options)
    topology = _topology(options, plan)
    plan = plan.expand(topology)
    asked = {name: options[name] for name in ("steps", "restarts", "restart_policy", "timeout", "network")}
    asked |= placing(options)
    if asked["machines"] is None:
        asked["network"] = asked["network"] or default_network(topology)
    if options["out"] is not None:
        check_place(options["out"])
    job = Job(command=command, cwd=str(Path.cwd()), **asked)
    quiet = options["quiet"]
    cluster = job.cluster(plan, out=options["out"], stream=not quiet, tf_log=options["tf_log"])
    if options["dry_run"]:
        _show(topology, plan, cluster, as_data=options["as_data"])
        return Exit.FINE
    done = carry_out(cluster, job, plan, out=options["out"], quiet=quiet)
    result, failure = done.result, done.failure
    if options["as_data"]:
        click.echo(encoded(done.data))
    elif result is not None:
        state = "ended well" if failure is None else "failed"
        show(f"{topology}: {state} in {result.seconds:.1f} s\n{summary(result, plan, done.recovery, job.steps)}")
    if options["html"] is not None and done.timeline is not None:
        write_page(options["html"], timeline_page([done.timeline], again()))
    if done.not_kept is not None:
        show(str(done.not_kept), err=True)
    if failure is not None:
        show(f"the job failed: {failure}", err=True)
        lacking = (HardwareMissing, HostsUnavailable, MachinesUnavailable)
        return Exit.LACKING if isinstance(failure, lacking) else Exit.FAILED
    return Exit.FINE if done.not_kept is None else Exit.FAILED


def _of_notebook(command: tuple[str, ...]) -> tuple[str, ...]:
    """The same command, with what runs the cells in place of a notebook that Python would have to read.

    It is run by this Python, as by `lockstep verify`: another one may have nothing that reads a notebook.

    Raises:
        UsageError: the notebook cannot be run.
    """
    from harness.subject.script import Script

    number = next((number for number, word in enumerate(command) if number and not word.startswith("-")), 0)
    if not command[number].endswith(".ipynb"):
        return command
    Script.of(command)
    return (sys.executable, *command[1:number], "-m", "_lockstep.notebook", *command[number:])


def _topology(options: dict[str, Any], plan: FaultPlan) -> Topology:
    """The tasks that were asked for; those of the plan if none were."""
    from simulator import Topology

    counts = {job: options[job] for job in ("worker", "ps", "chief", "evaluator") if options[job] is not None}
    if not counts and plan.topology is not None:
        return plan.topology
    if not counts and options["devices"] is not None:
        return Topology(devices=options["devices"])
    if not any(counts.values()):
        raise UsageError(
            "a cluster has tasks; give --worker N, and --ps N for parameter servers, before the command; for one "
            "process without TF_CONFIG, as MirroredStrategy wants it, give its devices alone: --devices cpu:2"
        )
    if counts.get("ps"):
        counts.setdefault("chief", 1)
    return Topology(**counts, devices=options["devices"] or "cpu:1")


def _show(topology: Topology, plan: FaultPlan, cluster: Cluster, *, as_data: bool) -> None:
    from simulator.network import hold_addresses

    hosts = cluster.network.hosts
    with hold_addresses(topology, hosts=hosts) as found:
        # Of other machines the names have to do: nothing is started to find their addresses.
        addresses = {
            task: f"{cluster.place[task]}:{address.rpartition(':')[2]}" if task in cluster.place else address
            for task, address in found.items()
        }
        configs = {task: topology.tf_config(task, addresses) for task in topology.tasks}
    if as_data:
        decoded = {task: msgspec.json.decode(config or "null") for task, config in configs.items()}
        click.echo(encoded({"tf_config": decoded, "plan": plan.to_mapping()}))
        return
    click.echo("# TF_CONFIG of each task" + "; a run picks ports of its own" * (not hosts))
    for task, config in configs.items():
        click.echo(f"{task}  {config}")
    click.echo("\n# the expanded plan")
    click.echo(plan.to_toml(), nl=False)
    sys.stdout.flush()
