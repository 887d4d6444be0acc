"""Judge random right trainings, and each again with small errors in what it recorded: `python tools/sweep.py`."""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path

import click
import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.pages import DOCS, fill  # noqa: E402
from tools.running import results_of  # noqa: E402
from tools.sweeping.cases import Case, family_names, says  # noqa: E402
from tools.sweeping.judging import Result, result_of  # noqa: E402
from tools.sweeping.table import as_json, failures, section, table, wrong  # noqa: E402

PAGE = DOCS / "sweep.md"

EPILOG = """\b
Examples:
  python tools/sweep.py --count 10                         # ten cases of each family
  python tools/sweep.py --family falling --family columns --count 25
  python tools/sweep.py --family columns --seed 17         # replay one case
  python tools/sweep.py --count 10 --json sweep.json --jobs 2
\b
Exit codes: 0 as it should be; 1 something right was accused or failed, or an error was missed; 2 usage error.
\b
Families:
"""


@click.command(epilog=EPILOG + "\n".join(f"  {name:<13} {says(name)}" for name in family_names()))
@click.option(
    "--family", "families", multiple=True, type=click.Choice(family_names()), help="Only these; may be repeated."
)
@click.option(
    "--seed", default=0, show_default=True, help="The first seed; the cases of a family have this and the next ones."
)
@click.option("--count", default=1, show_default=True, type=click.IntRange(1), help="Cases of each family.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Cases run at the same time.")
@click.option(
    "--injections", default=200, show_default=True, type=click.IntRange(0), help="Errors put into each case, at most."
)
@click.option("--timeout", default=120.0, show_default=True, help="Seconds for each run of a case.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write every result and error there."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the run of each case there, for `lockstep report`.",
)
@click.option("--page", is_flag=True, help=f"Write the table into docs/{PAGE.name}.")
def main(
    families: tuple[str, ...],
    seed: int,
    count: int,
    jobs: int,
    injections: int,
    timeout: float,
    json_file: Path | None,
    out: Path | None,
    page: bool,
) -> None:
    """Draw random trainings that are right, judge them, and judge each again with errors of 1e-3 put in.

    A case is a program of a family, its numbers and a strategy, all of which follow from a seed. It has to be
    consistent, or to abstain. Into what its run recorded errors are then put, one number of one array at one moment
    each: the smallest number that is not zero, and a random one, at the first, the middle and the last step and at the
    end. Each error has to be found, unless the verdict on the right run has said that it does not judge that number.
    """
    if json_file is not None and not json_file.parent.is_dir():
        raise click.UsageError(f"--json: there is no directory {json_file.parent}")
    names = families or family_names()
    cases = [Case(name, number) for number in range(seed, seed + count) for name in dict.fromkeys(names)]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    began = time.monotonic()
    try:
        run = functools.partial(result_of, keep=out, most=injections, timeout=timeout)
        for result in results_of(cases, min(jobs, len(cases)), run):
            results.append(result)
            click.echo(_progress(len(results), len(cases), time.monotonic() - began, result), err=True)
            if json_file is not None:  # after each, so that an interruption loses nothing
                json_file.write_bytes(msgspec.json.format(msgspec.json.encode(as_json(_ordered(results)))))
    except KeyboardInterrupt:
        click.echo(f"interrupted after {len(results)} of {len(cases)} cases", err=True)
        raise
    finally:
        if results:
            click.echo("\n\n".join([table(results), *failures(_ordered(results))]))
    if page:
        fill(PAGE, "sweep", section(results, range(seed, seed + count)))
    sys.exit(int(any(map(wrong, results))))


def _ordered(results: list[Result]) -> list[Result]:
    return sorted(results, key=lambda result: (result.family, result.seed))


def _progress(number: int, of: int, seconds: float, result: Result) -> str:
    fates = [each.fate for each in result.injected]
    said = f"{fates.count('caught')} caught, {fates.count('missed')} missed of {len(fates)}"
    return (
        f"[{number}/{of}, {seconds:.0f} s] {result.family}-{result.seed} under {result.strategy}: {result.outcome}, "
        f"ratio {result.worst_ratio:.2g}; errors: {said} ({result.seconds:.1f} + {result.seconds_injecting:.1f} s)"
    )


if __name__ == "__main__":
    main()
