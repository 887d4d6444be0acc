"""Run programs, tests and scenarios with other versions of TensorFlow, Keras and Python: `python tools/versions.py`."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from harness.judging.known_issues import registry  # noqa: E402
from tools.pages import DOCS, fill  # noqa: E402
from tools.versioning.environments import Environment, Unavailable, build, environments, installed  # noqa: E402
from tools.versioning.results import Measured, Result, read, write  # noqa: E402
from tools.versioning.running import of_program, of_tests  # noqa: E402
from tools.versioning.table import sections  # noqa: E402

PAGE = DOCS / "versions.md"
MEASURED = ROOT / "tools" / "versioning" / "measured.json"
_KINDS = ("upstream", "tests", "scenarios")
_PROGRAM_SECONDS_MAX = 120.0
_FILES_SECONDS_MAX = 5400.0

EPILOG = """\b
Examples:
  python tools/versions.py --at ~/versions --list
  python tools/versions.py --at ~/versions --only 'upstream/*' --page
  python tools/versions.py --at ~/versions --environment 'tf2.16*' --only 'tests/harness/test_noise*'
\b
Exit codes: 0 all that was asked for has been measured, whatever came of it; 2 usage error; 4 an environment cannot be
had here.
"""


@click.command(epilog=EPILOG)
@click.option(
    "--at",
    "place",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the environments, each 2 GB, which are made where they are missing.",
)
@click.option("--environment", "names", default="*", show_default=True, metavar="GLOB", help="Those called like this.")
@click.option(
    "--only",
    default="*",
    show_default=True,
    metavar="GLOB",
    help="upstream/ID, tests/.../FILE.py or scenarios/.../FILE.py, in this order.",
)
@click.option("--list", "listed", is_flag=True, help="Show what would be run, and run nothing.")
@click.option("--again", is_flag=True, help="Measure again what the file already has.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), default=MEASURED, show_default=True)
@click.option("--pytest", "options", multiple=True, metavar="OPTION", help="One more option for pytest, such as -n2.")
@click.option("--page", is_flag=True, help=f"Write the tables into docs/{PAGE.name} afterwards.")
@click.option("--table", is_flag=True, help="Run nothing; write the tables from what the file has.")
def main(
    place: Path | None,
    names: str,
    only: str,
    listed: bool,
    again: bool,
    file: Path,
    options: tuple[str, ...],
    page: bool,
    table: bool,
) -> None:
    """Measure what holds with other versions, and keep it in a file, which a run that is started again goes on with.

    First every program of docs/upstream, then the files of tests/, then those of scenarios/, in each environment. What
    pytest has said is kept in the folder `logs` of the environment.
    """
    if table:
        _write_page(read(file))
        return
    if place is None:
        raise click.UsageError("--at names the folder of the environments; each of them is 2 GB")
    place = place.expanduser().resolve()
    chosen = [each for each in environments() if fnmatch.fnmatchcase(each.name, names)]
    if not chosen:
        raise click.UsageError(f"--environment: none is called like {names!r}")
    wanted = [name for name in everything() if fnmatch.fnmatchcase(name, only)]
    if not wanted:
        raise click.UsageError(f"--only: nothing is called like {only!r}; see --list")
    if listed:
        click.echo("\n".join(f"{each.name} {name}" for each in chosen for name in wanted_in(each, wanted)))
        return
    measured = read(file)
    lacking = False
    for environment in chosen:
        try:
            build(environment, place)
        except Unavailable as why:
            click.echo(f"{environment.name}: {why}", err=True)
            lacking = True
            continue
        measured.versions[environment.name] = installed(environment, place)
        _measure(environment, place, wanted_in(environment, wanted), measured, file, again=again, options=options)
    if page:
        _write_page(measured)
    sys.exit(4 if lacking else 0)


def _write_page(measured: Measured) -> None:
    fill(PAGE, "versions", sections(measured))


def everything() -> Iterator[str]:
    """All that can be measured, by name."""
    yield from (f"upstream/{issue.id}" for issue in registry())
    for folder in _KINDS[1:]:
        yield from sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("test_*.py"))


def wanted_in(environment: Environment, wanted: list[str]) -> list[str]:
    """What of this is run in an environment: in one that stands between others, the programs of defects of Keras 3."""
    of_keras = {f"upstream/{issue.id}" for issue in registry() if "keras" in issue.packages}
    return [name for name in wanted if name in of_keras] if environment.between else wanted


def _measure(
    environment: Environment,
    place: Path,
    wanted: list[str],
    measured: Measured,
    file: Path,
    *,
    again: bool,
    options: tuple[str, ...],
) -> None:
    results = measured.results.setdefault(environment.name, {})
    lacking = [name for name in wanted if again or name not in results]
    for kind in _KINDS:
        names = [name for name in lacking if name.startswith(f"{kind}/")]
        for found in _results(environment, place, kind, names, options):
            results.update(found)
            write(file, measured)
            for name, result in found.items():
                click.echo(f"{environment.name} {name}: {result.outcome}, {result.seconds:g} s  {result.why}")


def _results(
    environment: Environment, place: Path, kind: str, names: list[str], options: tuple[str, ...]
) -> Iterator[dict[str, Result]]:
    """Of one program after another; of files all together, which share processes and references."""
    python = environment.interpreter(place)
    if kind == "upstream":
        issues = {f"upstream/{issue.id}": issue for issue in registry()}
        for name in names:
            yield {name: of_program(python, issues[name], _PROGRAM_SECONDS_MAX)}
    elif names:
        log = place / environment.name / "logs" / f"{kind}.txt"
        yield of_tests(python, names, _FILES_SECONDS_MAX, options, log=log)


if __name__ == "__main__":
    main()
