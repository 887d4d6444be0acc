"""The command `lockstep doctor`: what this machine can do, what it lacks, and what that costs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from harness.cli._exits import Exit, command
from harness.cli._options import machines_options, placing

if TYPE_CHECKING:
    from simulator.capabilities import Capabilities
    from simulator.machines.far.machine import FarMachine


@command(epilog="Example: lockstep doctor --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@machines_options
@click.pass_context
def doctor(context: click.Context, /, as_json: bool, **options: Any) -> None:
    """Say what this machine can do, what it lacks, and what that costs; with --machines, whether those can be used.

    Exits with 4 if TensorFlow is missing or too old, or a machine cannot be used, else with 0: all else has a
    substitute.
    """
    from simulator.capabilities import probe
    from simulator.capabilities.versions import why_refused

    if options["machines"] is not None:
        context.exit(_machines(options, as_json=as_json))
    found = probe()
    click.echo(json.dumps({**found.to_json(), "known_defects": _defects()}, indent=2) if as_json else _text(found))
    if found.tensorflow is None or why_refused(found.tensorflow):
        context.exit(Exit.LACKING)


def _machines(options: dict[str, Any], *, as_json: bool) -> Exit:
    """Reach the machines as a run would, which tries all that it needs of them, and show what was found."""
    from simulator.machines.engines.selection import engine_of
    from simulator.machines.far.checks import MachinesUnavailable

    asked = placing(options)
    engine = engine_of(asked["machines"], files=asked["files"], python=asked["machines_python"])
    assert engine is not None
    try:
        with engine as machines:
            found = [_of_machine(machine) for machine in machines]
    except MachinesUnavailable as error:
        click.echo(json.dumps({"error": str(error)}) if as_json else str(error), err=not as_json)
        return Exit.LACKING
    click.echo(json.dumps({"machines": found}, indent=2) if as_json else "\n".join(map(_line, found)))
    return Exit.FINE


def _of_machine(machine: FarMachine) -> dict[str, Any]:
    assert machine.up is not None
    return {
        "name": machine.name,
        "host": machine.up.host,
        "address": machine.address,
        "addresses": list(machine.up.addresses),
        "cores": machine.up.cores,
        "memory_bytes": machine.up.memory,
        "python": machine.up.python,
        "tensorflow": machine.up.tensorflow or None,
        "clock_offset_seconds": machine.clock.offset,
        "clock_error_seconds": machine.clock.error,
    }


def _line(found: dict[str, Any]) -> str:
    return (
        f"{found['name']}: host {found['host']}, reached by all at {found['address']}, {found['cores']} cores, "
        f"{found['memory_bytes'] / 2**30:.1f} GiB, Python {found['python']}, TensorFlow {found['tensorflow']}, clock "
        f"{found['clock_offset_seconds']:+.6f} s from this one's, known to {found['clock_error_seconds'] * 1e3:.2f} ms"
    )


def _text(found: Capabilities) -> str:
    """Render the facts as lines and the capabilities as a table, as wide as the terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    table.add_column("capability", no_wrap=True)
    table.add_column("found, or what its absence costs and what to do", overflow="fold")
    for item in found.items:
        mark = Text("yes", "green") if item.available else Text("no", "yellow")
        # Text, not markup: a reason may contain square brackets.
        told = item.detail if item.available else f"{item.detail}\ncosts: {item.cost}\nto do: {item.remedy}"
        table.add_row(mark, item.name, Text(told))
    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(Text(_facts(found)))
        console.print()
        console.print(table)
    return captured.get().rstrip("\n")


def _defects() -> list[str]:
    """The known defects of the versions that are installed."""
    from harness.judging.known_issues import registry

    return [issue.id for issue in registry() if issue.affects_installed_versions()]


def _facts(found: Capabilities) -> str:
    quota = "none" if found.cores_quota is None else f"{found.cores_quota:g}"
    versions = (("TensorFlow", found.tensorflow), ("Keras", found.keras), ("tf_keras", found.tf_keras))
    defects = _defects()
    return "\n".join(
        (
            f"Python {found.python} on {found.platform}",
            ", ".join(f"{name} {version or 'missing'}" for name, version in versions),
            f"{found.cores:g} cores usable (affinity {found.cores_affinity}, control group limit {quota})",
            f"{found.memory_bytes / 2**30:.1f} GiB of memory",
            f"{len(defects)} known defects of these versions; `lockstep audit` names those that a training meets",
        )
    )
