"""Verify the programs of examples/wild/ and write docs/wild.md: `python tools/wild.py [NAME ...]`.

Each runs in an environment of its own with the packages that it names, which is made where it is missing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.pages import DOCS, fill, table  # noqa: E402
from tools.wilding.declared import Wild, programs  # noqa: E402
from tools.wilding.environments import PLACE, is_ready, make  # noqa: E402
from tools.wilding.running import Result, verified  # noqa: E402

PAGE = DOCS / "wild.md"
_KEPT = Path(__file__).with_name("wilding") / "results.json"
"""What was measured, so that one program can be run again without all others."""


class Row(msgspec.Struct, frozen=True):
    """What the page says of one case."""

    file: str
    function: str
    strategy: str
    outcome: str
    why: str
    culprit: str
    seconds: int


def row_of(wild: Wild, result: Result) -> Row:
    """The row of a case that was run."""
    verdict = result.verdict
    explanation, culprit = verdict.get("explanation") or {}, verdict.get("culprit") or {}
    why = verdict.get("abstained") or explanation.get("rule") or ""
    if "error" in verdict:
        why = _first_failure(verdict["error"])
    elif not why and verdict["findings"]:
        why = f"first at step {verdict['first_divergence']['step']}: {verdict['findings'][0]['law']}"
    return Row(
        file=wild.file.name,
        function=result.case.function,
        strategy=result.case.strategy,
        outcome=result.outcome,
        why=why,
        culprit=_line(culprit),
        seconds=round(result.seconds),
    )


def _first_failure(error: str) -> str:
    found = re.search(r"failed first: (.*)", error)
    return (found[1] if found else error.partition("\n")[0])[:120]


def _line(culprit: dict[str, object]) -> str:
    """The file, from its package on or by its name, and the line with its source."""
    if not culprit:
        return ""
    file = str(culprit["file"])
    short = file.partition("site-packages/")[2] or Path(file).name
    return f"{short}:{culprit['line']} {culprit['source']}"


def region(rows: Sequence[Row], known: Sequence[Wild]) -> str:
    """The rows as a table, in the order of the programs; a case that has no row has not been run."""
    measured = {(row.file, row.function, row.strategy): row for row in rows}
    found = []
    for wild in known:
        for case in wild.cases:
            row = measured.get((wild.file.name, case.function, case.strategy))
            cells = [_package(wild), f"[{case.function}](../examples/wild/{wild.file.name})", f"`{case.strategy}`"]
            if row is None:
                cells += ["not run yet", "", "", ""]
            else:
                cells += [row.outcome, row.why, f"`{row.culprit}`" if row.culprit else "", str(row.seconds)]
            found.append([cell.replace("|", "&#124;") for cell in cells])
    return table(("package", "program", "strategy", "verdict", "why", "culprit", "seconds"), found)


def _package(wild: Wild) -> str:
    """What it is about, with its version."""
    return next(each for each in wild.requirements if each.startswith(wild.name))


def _keep(row: Row) -> None:
    """Put a row among those that are kept, and on the page."""
    rows = msgspec.json.decode(_KEPT.read_bytes(), type=list[Row]) if _KEPT.exists() else []
    cases = [(wild.file.name, case.function, case.strategy) for wild in programs() for case in wild.cases]
    by_case = {(each.file, each.function, each.strategy): each for each in (*rows, row)}
    rows = [by_case[case] for case in cases if case in by_case]
    _KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")
    fill(PAGE, "wild", region(rows, programs()))


@click.command()
@click.argument("names", nargs=-1)
@click.option("--into", type=click.Path(path_type=Path), default=PLACE, show_default=True, help="For the environments.")
@click.option("--only-environments", is_flag=True, help="Make environments that are missing, and run nothing.")
def main(names: tuple[str, ...], into: Path, only_environments: bool) -> None:
    """Run the programs of these names, or all."""
    wanted = [wild for wild in programs() if not names or wild.name in names]
    if unknown := set(names) - {wild.name for wild in wanted}:
        raise click.UsageError(f"no program is called {', '.join(sorted(unknown))}; see examples/wild/")
    unexpected = []
    for wild in wanted:
        if not is_ready(wild, into):
            click.echo(f"{wild.name}: making its environment ...")
            try:
                make(wild, into)
            except subprocess.CalledProcessError as error:
                raise click.ClickException(f"{wild.name}: {error}") from error
        if only_environments:
            continue
        for case in wild.cases:
            result = verified(wild, case, into)
            _keep(row_of(wild, result))
            click.echo(
                f"{wild.name}: {case.function} under {case.strategy}: {result.outcome} in {result.seconds:.0f} s"
            )
            if not result.as_declared:
                unexpected.append(f"{wild.name}: {case.function} under {case.strategy} is {result.outcome}")
    if unexpected:
        raise click.ClickException("not what the programs declare:\n" + "\n".join(unexpected))


if __name__ == "__main__":
    main()
