"""`lockstep report`: a saved matrix, a saved run, or the timeline of a run, read again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from harness.cli._exits import Exit, command, of_outcome, worst
from harness.cli._options import html_option, verbose_option
from harness.cli._output_files import again, check_written, write_page, write_trace, write_verdicts
from harness.cli._terminal_width import columns, fitted, show
from harness.cli._verdicts import TEXT, format_of, format_options, reported, show_verdict, write
from harness.damaged_files import reading
from harness.report.timeline import as_data, journals, lines, read_timelines, timeline_page, trace_json
from harness.run_directory import VERDICT
from simulator import UsageError

if TYPE_CHECKING:
    from harness.judging.diagnostics.formats import ReportedVerdict
    from harness.judging.verdict import Verdict
    from harness.report import Matrix

_EPILOG = """\b
Examples:
  lockstep report out/ --html matrix.html         out/ from `pytest scenarios/ --lockstep-out=out`
  lockstep report out/ --format github            what its failed tests say, at their lines in a pull request
  lockstep report verified/                       verified/ from `lockstep verify --out verified ...`
  lockstep report verified/ --html verdicts.html  the same as a page, with losses, timelines and logs
  lockstep report runs/7                          runs/7 from `lockstep run --out runs/7 ...`
  lockstep report runs/7 --html timeline.html     the timeline as a page
  lockstep report runs/7 --trace trace.json       the same for https://ui.perfetto.dev
"""


@command(epilog=_EPILOG)
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@html_option("Write the matrix, the verdicts or the timeline as a page.")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the timeline as a trace for Perfetto.",
)
@verbose_option
@format_options
def report(
    directory: Path, html: Path | None, trace: Path | None, verbose: bool, form: str | None, as_json: bool
) -> int:
    """Show a saved matrix, judge a saved run again, or show the timeline of a run.

    DIR is what `pytest scenarios/ --lockstep-out=DIR`, `lockstep verify --out DIR`, `lockstep run --out DIR` or
    `Cluster(out=DIR)` has written. A run of `verify` is judged from its traces, by the laws of this version of Lockstep
    and without TensorFlow; the exit code is that of `lockstep verify`. It has a folder for each strategy in DIR, which
    is a DIR for this command too. The timeline comes from the journal: tasks with their processes and steps, faults
    with the time until a peer failed and until the next step, and links.
    """
    form = format_of(form, as_json=as_json)
    check_written(html, trace)
    if not directory.exists():
        raise UsageError(f"there is no directory {directory}; DIR is what a command has written with --out DIR")
    if judged := _verified(directory):
        _write_timelines(directory, None, trace)
        return _judge_all(directory, judged, html, form, verbose=verbose)
    has_matrix = (directory / "matrix.json").exists()
    if form not in (TEXT, "json") and not has_matrix:
        raise UsageError(f"--format {form} is for verdicts, and {directory} holds none; there are text and json")
    as_json = form == "json"
    if _holds_runs(directory):
        _write_timelines(directory, html, trace)
        return _timelines(directory, as_json=as_json, silent=html is not None or trace is not None)
    if trace is not None:
        raise UsageError(f"{directory} holds no run, so there is no timeline for --trace")
    if (directory / "run.json").exists():
        raise UsageError(
            f"{directory} holds no journal: its `lockstep run` has not come to an end, or was killed before it "
            "could write what happened"
        )
    if directory.is_dir() and not has_matrix:
        raise UsageError(
            f"{directory} holds neither a run nor a matrix; make one with `lockstep run --out DIR`, "
            "`lockstep verify --out DIR` or `pytest scenarios/ --lockstep-out=DIR`"
        )
    return _matrix(directory, html, form)


def _verified(directory: Path) -> list[Path]:
    """The verified runs in what `lockstep verify --out` has written, or in one strategy's folder of it."""
    if (directory / VERDICT).exists():
        return [directory]
    return sorted(path.parent for path in directory.glob(f"*/{VERDICT}"))


def _holds_runs(directory: Path) -> bool:
    return directory.is_dir() and not (directory / "matrix.json").exists() and bool(journals(directory))


def _write_timelines(directory: Path, html: Path | None, trace: Path | None) -> None:
    if html is None and trace is None:
        return
    with reading(directory):
        timelines = read_timelines(directory)
        page = None if html is None else timeline_page(timelines, again())
        data = None if trace is None else trace_json(timelines)
    if html is not None and page is not None:
        write_page(html, page)
    if trace is not None and data is not None:
        write_trace(trace, data)


def _timelines(directory: Path, *, as_json: bool, silent: bool) -> int:
    from simulator.journal.journal import is_cut_off

    with reading(directory):
        timelines = read_timelines(directory)
        if as_json:
            shown: list[str | bytes] = [msgspec.json.encode({"runs": [as_data(timeline) for timeline in timelines]})]
        else:
            shown = [] if silent else ["\n".join(lines(timeline, columns())) for timeline in timelines]
    for text in shown:
        click.echo(text) if isinstance(text, bytes) else show(text)
    if cut := [str(path) for path in journals(directory) if is_cut_off(path)]:
        raise UsageError(f"{cut[0]} was cut off within a line, as by a full disk: what came after that is not known")
    return Exit.FAILED if any(timeline.ending == "cut off" for timeline in timelines) else Exit.FINE


def _matrix(directory: Path, html: Path | None, form: str) -> int:
    from harness.report.diff import read_matrix
    from harness.report.pages import matrix_page

    matrix = read_matrix(directory)
    with reading(directory):
        page = None if html is None else matrix_page(matrix, again())
        shown = matrix.to_json().decode() if form == "json" else "\n".join(_matrix_lines(matrix))
        failed = list(_failed(matrix))
    if html is not None and page is not None:
        write_page(html, page)
    if form not in (TEXT, "json"):
        write(form, [], failed)
    elif form == "json" or html is None:
        click.echo(shown)
    return 0


def _failed(matrix: Matrix) -> Iterator[ReportedVerdict]:
    """What the verdicts of failed tests say; nothing of a test that expects a mistake and finds it."""
    from harness.judging.diagnostics import Diagnostic
    from harness.judging.diagnostics.formats import ReportedVerdict

    for cell in matrix.cells:
        for verdict in cell.verdicts if cell.outcome == "FAIL" else ():
            if (told := verdict.get("diagnostic")) is not None:
                found = msgspec.convert(told, Diagnostic)
                file = cell.test.partition("::")[0]
                yield ReportedVerdict(file, found.program, found.strategy, verdict.get("seconds", 0.0), found)


def _matrix_lines(matrix: Matrix) -> Iterator[str]:
    yield f"{', '.join(f'{name} {text}' for name, text in matrix.versions.items())}, on {matrix.hardware}\n"
    yield from matrix.lines(shutil.get_terminal_size((160, 24)).columns)
    for table in matrix.tables:
        yield ""
        yield from (fitted(line, columns(), table=True) for line in table.lines())


def _judge_all(directory: Path, judged: list[Path], html: Path | None, form: str, *, verbose: bool) -> int:
    """Judge each run again; one that has left no verdict has failed."""
    unjudged = [
        path for path in sorted(directory.iterdir()) if judged != [directory] and path not in judged and _is_run(path)
    ]
    verdicts = [_judge(path) for path in judged]
    if html is not None:
        write_verdicts(html, [(verdict.to_json(), path) for verdict, path in zip(verdicts, judged, strict=True)])
    for verdict in verdicts:
        show_verdict(verdict, form, verbose=verbose)
    write(form, [verdict.to_json() for verdict in verdicts], [*map(reported, verdicts)])
    for path in unjudged:
        show(f"{path} holds a run that could not be judged; see its logs", err=True)
    if unjudged:
        return Exit.FAILED
    return worst(of_outcome(verdict.outcome) for verdict in verdicts)


def _is_run(directory: Path) -> bool:
    return directory.is_dir() and bool(journals(directory))


def _judge(directory: Path) -> Verdict:
    from harness.comparing import read_side

    return read_side(directory).verdict
