"""The command `lockstep doctor`: what this machine can do, what it lacks, and what that costs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from harness.cli._exits import Exit

if TYPE_CHECKING:
    from simulator.capabilities import Capabilities

__all__ = ["doctor"]


@click.command(epilog="Example: lockstep doctor --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Say what this machine can do, what it lacks, and what that costs.

    Exits with 4 if TensorFlow is missing, else with 0: everything else has a substitute.
    """
    from simulator.capabilities import probe

    found = probe()
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else _text(found))
    if found.tensorflow is None:
        context.exit(Exit.LACKING)


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


def _facts(found: Capabilities) -> str:
    quota = "none" if found.cores_quota is None else f"{found.cores_quota:g}"
    versions = (("TensorFlow", found.tensorflow), ("Keras", found.keras), ("tf_keras", found.tf_keras))
    return "\n".join(
        (
            f"Python {found.python} on {found.platform}",
            ", ".join(f"{name} {version or 'missing'}" for name, version in versions),
            f"{found.cores:g} cores usable (affinity {found.cores_affinity}, control group limit {quota})",
            f"{found.memory_bytes / 2**30:.1f} GiB of memory",
        )
    )
