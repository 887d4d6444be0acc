"""`lockstep strategies`: the catalogue."""

from __future__ import annotations

import click
import msgspec

from harness.cli._exits import command
from harness.cli._terminal_width import show
from harness.subject.strategies import StrategyCase, catalogue


@command(epilog="\b\nExample:\n  lockstep strategies --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def strategies(as_json: bool) -> int:
    """List the strategies by name, with the cluster each one runs on.

    R, W, D and P in a name are numbers of your choice: mirrored-R replicas, multi_worker-WxD workers with D devices
    each, parameter_server-WwPp workers and parameter servers.
    """
    rows = [_row(case) for case in catalogue()]
    if as_json:
        click.echo(msgspec.json.encode(rows))
        return 0
    titles = ("strategy", "replicas", "clients", "cluster", "synchronous", "needs")
    table = [titles, *(tuple(str(row[title] if row[title] is not None else "-") for title in titles) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(titles))]
    for line in table:
        show("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip(), table=True)
    return 0


def _row(case: StrategyCase) -> dict[str, str | int | bool | None]:
    return {
        "strategy": case.name,
        "replicas": case.replicas,
        "clients": len(case.clients),
        "cluster": f"{case.topology}, {case.topology.devices_of('worker')} each",
        "synchronous": case.synchronous,
        "needs": case.needs,
    }
