"""Infer for the programs of tools/trials.py whether they are right for every batch: `python tools/proofs.py`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click
import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.proving.models import models  # noqa: E402
from tools.proving.running import Found, as_expected, found_of  # noqa: E402
from tools.proving.table import section, summary  # noqa: E402
from tools.trying.cases import trials  # noqa: E402
from tools.update_tables import filled  # noqa: E402
from tools.working import results_of  # noqa: E402

__all__ = ["main"]

PAGE = ROOT / "docs" / "proof-tables.md"

EPILOG = """\b
Examples:
  python tools/proofs.py --only 'plain_variables:*'
  python tools/proofs.py --json proofs.json --page
\b
Exit codes: 0 as it should be; 1 something wrong was proved, or something right was refuted; 2 usage error.
"""


@click.command(epilog=EPILOG)
@click.option("--only", default="*", show_default=True, metavar="GLOB", help="Those whose names match.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Programs run at the same time.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write every result there.")
@click.option("--resume", is_flag=True, help="Keep what the file of --json has, and run only what it lacks.")
@click.option("--page", is_flag=True, help=f"Write the table into docs/{PAGE.name}.")
def main(only: str, jobs: int, json_file: Path | None, resume: bool, page: bool) -> None:
    """Prove every program of tools/trying/catalogue.toml and the models of tools/proving/models.py.

    A wrong program must not be proved; it may be right under a condition that its own data does not meet. A right one
    must not be refuted.
    """
    if resume and json_file is None:
        raise click.UsageError("--resume continues a file: give it with --json")
    chosen = (*models(only), *(each for each in trials(only) if not each.strategy.startswith("parameter_server")))
    if not chosen:
        raise click.UsageError(f"--only: no program is called like {only!r}")
    done: dict[str, Found] = {}
    if resume and json_file is not None and json_file.exists():
        done = {each.name: each for each in msgspec.json.decode(json_file.read_bytes(), type=list[Found])}
    waiting = [each for each in chosen if each.name not in done]
    began = time.monotonic()
    for found in results_of(waiting, max(1, min(jobs, len(waiting))), found_of):
        done[found.name] = found
        mark = "" if as_expected(found) else "  <- not as it should be"
        click.echo(
            f"[{len(done)}/{len(chosen)}, {time.monotonic() - began:.0f} s] {found.name}: {found.status}{mark}",
            err=True,
        )
        if json_file is not None:  # after each, so that an interruption loses nothing
            json_file.write_bytes(msgspec.json.format(msgspec.json.encode(list(done.values()))) + b"\n")
    order = [each.name for each in chosen]
    results = sorted((done[name] for name in order if name in done), key=lambda each: order.index(each.name))
    click.echo(summary(results))
    if page:
        PAGE.write_text(filled(PAGE.read_text(), "proofs", section(results)))
    sys.exit(int(not all(map(as_expected, results))))


if __name__ == "__main__":
    main()
