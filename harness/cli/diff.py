"""`lockstep diff`: two saved matrices side by side."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from harness.cli._exits import command
from harness.cli._terminal_width import show


@command(epilog="\b\nExample:\n  lockstep diff tf-2.20/ tf-2.21/")
@click.argument("before", type=click.Path(path_type=Path), metavar="REPORT_A")
@click.argument("after", type=click.Path(path_type=Path), metavar="REPORT_B")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def diff(before: Path, after: Path, as_json: bool) -> int:
    """List the cells that changed between two matrices, for example of two TensorFlow versions.

    A report is what `pytest scenarios/ --lockstep-out=DIR` has written: the folder, or the file matrix.json in it. The
    exit code is 1 if a cell has become worse, else 0.
    """
    from harness.report.diff import compare_matrices, read_matrix

    old, new = read_matrix(before), read_matrix(after)
    changes = list(compare_matrices(old, new))
    if as_json:
        click.echo(msgspec.json.encode(changes))
        return int(any(change.worse for change in changes))
    for name in dict.fromkeys([*old.versions, *new.versions]):
        versions = old.versions.get(name, "none"), new.versions.get(name, "none")
        click.echo(f"{name} {versions[0]}" if versions[0] == versions[1] else f"{name} {versions[0]} -> {versions[1]}")
    for change in sorted(changes, key=lambda change: not change.worse):
        mark = "worse " if change.worse else "change"
        where = f"{change.row} {change.strategy}".rstrip()
        show(f"{mark}  {where}: {change.before or '-'} -> {change.after or '-'}")
        if change.worse and change.reason:
            show(f"        {change.reason}")
    click.echo(
        f"{len(changes)} of {len(new.cells)} cells changed, {sum(change.worse for change in changes)} for the worse"
    )
    return int(any(change.worse for change in changes))
