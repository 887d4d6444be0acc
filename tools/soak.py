"""Run Lockstep on what is drawn from seeds, and check what must always hold: `python tools/soak.py`."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import click
import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.running import results_of  # noqa: E402
from tools.soaking.cases import Case, command_of, drawn  # noqa: E402
from tools.soaking.checking import Wrong, other_history, wrong_with  # noqa: E402
from tools.soaking.defects import DEFECTS, planted  # noqa: E402
from tools.soaking.measuring import measured  # noqa: E402
from tools.soaking.running import carried_out  # noqa: E402
from tools.soaking.shrinking import shrunk  # noqa: E402

# So many cases are followed by a measurement of what links do.
_MEASURED_EACH = 10
_TOLD_EACH = 100

EPILOG = """\b
Examples:
  python tools/soak.py --runs 100                    # a few minutes
  python tools/soak.py --runs 100000 --jobs 4        # until somebody has seen enough
  python tools/soak.py --seed 1234 --runs 1          # one case again
  python tools/soak.py --seed 1234 --runs 1 --show   # what it is, and nothing else
  python tools/soak.py --defect loss --runs 100      # a defect that has to be found
\b
Exit codes: 0 all held (or the planted defect was found); 1 something did not; 2 usage error.
"""


class Result(msgspec.Struct, frozen=True):
    """What came of one case."""

    case: Case
    wrong: tuple[Wrong, ...]
    seconds: float
    struck: bool
    code: int | None


def result_of(case: Case, packages: Path = ROOT) -> Result:
    """Run a case, and check all that must hold of it."""
    with carried_out(case, packages) as seen:
        wrong = wrong_with(case, seen)
        if case.repeats and not wrong:
            with carried_out(case, packages) as again:
                wrong += other_history(seen, again)
        result = Result(case, tuple(wrong), seen.seconds, seen.struck, seen.code)
    if case.seed % _MEASURED_EACH == 0 and not result.wrong:
        result = msgspec.structs.replace(result, wrong=(*result.wrong, *_not_as_asked(case, packages)))
    return result


def _not_as_asked(case: Case, packages: Path) -> list[Wrong]:
    try:
        found = measured(case.seed, packages)
    except (ChildProcessError, subprocess.TimeoutExpired) as error:
        return [Wrong("measured", str(error))]
    return [Wrong("as asked", str(each)) for each in found if not each.holds]


_OF_THE_SEED = ("as asked", "measured")
"""What does not depend on the case: it is measured apart."""


@click.command(epilog=EPILOG)
@click.option("--seed", default=0, show_default=True, help="The first seed; the cases have this and the next ones.")
@click.option("--runs", default=100, show_default=True, type=click.IntRange(1), help="Cases.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Cases run at the same time.")
@click.option("--show", is_flag=True, help="Print each case and its command, and run none.")
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Make what fails smaller.")
@click.option("--defect", type=click.Choice(sorted(DEFECTS)), help="Plant this in Lockstep, and end when it is found.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write every result there.")
def main(seed: int, runs: int, jobs: int, show: bool, shrink: bool, defect: str | None, file: Path | None) -> None:
    """Draw clusters, programs, plans, limits and blows at Lockstep itself, and check what must hold of each run."""
    cases = [drawn(number) for number in range(seed, seed + runs)]
    if show:
        for case in cases:
            click.echo(f"{case}\n  lockstep {shlex.join(command_of(case, Path('OUT')))}")
        return
    began = time.monotonic()
    results = []
    with planted(defect) if defect else contextlib.nullcontext(ROOT) as packages:
        for result in results_of(cases, jobs, partial(result_of, packages=packages)):
            results.append(result)
            if len(results) % _TOLD_EACH == 0:
                click.echo(f"{len(results)} of {runs} runs", err=True)
            if result.wrong:
                _tell(result)
            if defect and any(wrong.invariant == DEFECTS[defect].invariant for wrong in result.wrong):
                click.echo(f"defect {defect}: found in run {len(results)}")
                return
        # Nobody runs anything beside, which would count as left over.
        for result in results if shrink and defect is None else ():
            if result.wrong:
                _shrink(result, packages)
    if file is not None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    _sum_up(results, time.monotonic() - began)
    sys.exit(int(defect is not None or any(result.wrong for result in results)))


def _tell(result: Result) -> None:
    case = result.case
    for wrong in result.wrong:
        click.echo(f"seed {case.seed}: {wrong.invariant}: {wrong.text}")
    click.echo(f"  {case}\n  python tools/soak.py --seed {case.seed} --runs 1")


def _shrink(result: Result, packages: Path) -> None:
    case, first = result.case, result.wrong[0].invariant
    if first in _OF_THE_SEED:
        return

    def fails(other: Case) -> bool:
        return any(wrong.invariant == first for wrong in result_of(other, packages).wrong)

    smaller = f"smaller: {shrunk(case, fails)}" if fails(case) else "a second run of it was as it should be"
    click.echo(f"seed {case.seed}: {smaller}")


def _sum_up(results: list[Result], seconds: float) -> None:
    click.echo(
        f"{len(results)} runs in {seconds:.0f} s, of which {sum(bool(each.wrong) for each in results)} were wrong"
    )
    for what, count in (
        ("programs", Counter(each.case.program for each in results)),
        ("networks", Counter(each.case.network for each in results)),
        ("faults", Counter(fault.split(",")[0] for each in results for fault in each.case.faults)),
        ("limits", Counter(each.case.limit.what for each in results if each.case.limit and each.struck)),
        ("blows", Counter(f"{b.target} {b.signal}" for each in results if each.struck and (b := each.case.blow))),
        ("exit codes", Counter(each.code for each in results)),
        ("wrong", Counter(wrong.invariant for each in results for wrong in each.wrong)),
    ):
        click.echo(f"  {what}: {', '.join(f'{name} {number}' for name, number in count.most_common())}")


if __name__ == "__main__":
    main()
