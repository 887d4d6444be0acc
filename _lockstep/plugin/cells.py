"""From one test's outcome to one cell of the matrix, known issues taken into account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from _lockstep import names
from _lockstep.plugin.fixtures import hardware_of
from _lockstep.plugin.needed import need_lockstep

if TYPE_CHECKING:
    from harness.judging.known_issues import KnownIssue
    from harness.judging.verdict import Verdict

CELL_PROPERTY = "lockstep"
_ISSUES = pytest.StashKey["tuple[KnownIssue, ...]"]()


def judge_known(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, verdicts: Sequence[Verdict]
) -> None:
    """Hold a test to the known issues of its cell, in both directions.

    The exact symptom must appear and nothing else, which makes the test `xfailed`. If another failure comes, or none,
    the test fails.
    """
    issues = item.stash.get(_ISSUES, ())
    if not issues or report.skipped:
        return
    error = call.excinfo.value if call.excinfo is not None else None
    seen = _seen(issues, error, verdicts)
    if seen and None not in seen:
        first = next(issue for issue in seen if issue is not None)
        report.outcome = "skipped"
        report.wasxfail = f"{first.id}: {first.summary} ({first.reference})"
        return
    wanted = "; ".join(f"{issue.id}: {issue.symptom_here}" for issue in issues)
    report.outcome = "failed"
    if seen:
        found = report.longreprtext or "\n".join(str(verdict) for verdict in verdicts if not verdict.consistent)
        report.longrepr = f"This cell is a known issue ({wanted}), but failed in another way:\n{found}"
    else:
        report.longrepr = (
            f"fixed upstream? This cell is a known issue ({wanted}), but it is consistent now: remove the entry."
        )


def _seen(
    issues: Sequence[KnownIssue], error: BaseException | None, verdicts: Sequence[Verdict]
) -> list[KnownIssue | None]:
    """The known issue behind each thing that is wrong with a test, None where there is none."""
    wrong = [verdict for verdict in verdicts if not verdict.consistent]
    seen = [next((issue for issue in issues if issue.symptom_here.fits_verdict(verdict)), None) for verdict in wrong]
    # `assert verify(...)` raises nothing new: its verdict has been looked at.
    if error is not None and not (wrong and isinstance(error, AssertionError)):
        seen.append(next((issue for issue in issues if issue.symptom_here.fits_failure(error)), None))
    return seen


def find_known_issues(item: pytest.Item) -> None:
    """Look up a test's known issues at collection, so that a wrong id stops the session before anything runs.

    Raises:
        pytest.UsageError: the test names an issue that is not in the registry, or the registry is malformed.
    """
    markers = list(item.iter_markers("known_issue"))
    if any(not marker.args or marker.kwargs for marker in markers):
        raise pytest.UsageError(f'{item.nodeid}: known_issue takes ids from the registry; write known_issue("ID")')
    marked = [name for marker in markers for name in marker.args]
    strategy, loop = _strategy_of(item), _loop_of(item)
    # A parameter may be called `loop` in any project.
    if not marked and (loop is None or not names.loaded("harness")):
        return
    need_lockstep()
    from harness.judging.known_issues import issues_for
    from simulator import UsageError

    try:
        item.stash[_ISSUES] = issues_for(strategy, loop, marked, _hardware_of(item))
    except UsageError as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from error


def _params(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else dict(callspec.params)


def has_strategy(item: pytest.Item) -> bool:
    """Whether the test runs under one of the strategies."""
    return bool(_strategy_of(item))


def _strategy_of(item: pytest.Item) -> str:
    return str(_params(item).get("strategy", ""))


def _hardware_of(item: pytest.Item) -> str:
    """What the test's strategy computes on, which may be another than the session's: NCCL is for GPUs."""
    case = _params(item).get("strategy")
    return str(getattr(case, "accelerator", None) or hardware_of(item.config))


def _loop_of(item: pytest.Item) -> str | None:
    if marker := item.get_closest_marker("loop"):
        return str(marker.args[0])
    loop = _params(item).get("loop")
    return None if loop is None else str(loop)


def cell_of(item: pytest.Item, report: pytest.TestReport, verdicts: Sequence[Verdict]) -> str:
    """The cell as JSON, which travels in the report's properties through xdist and into JUnit files."""
    import msgspec

    from harness.report import Cell

    ratios = [verdict.worst_ratio for verdict in verdicts if verdict.worst_ratio is not None]
    worst = max(ratios, default=None)
    cell = Cell(
        row=_row(item),
        strategy=_strategy_of(item),
        outcome=_outcome(report),
        ratio="inf" if worst == float("inf") else worst,
        seconds=round(report.duration, 3),
        reason=_reason(report),
        verdicts=tuple(verdict.to_json() for verdict in verdicts),
        test=item.nodeid,
    )
    return msgspec.json.encode(cell).decode()


def _row(item: pytest.Item) -> str:
    """`test_training: test_digits[cnn-adam]`: file and test, with every parameter but the strategy."""
    name = item.name
    if strategy := _strategy_of(item):
        base, bracket, ids = name.partition("[")
        parts = ids.rstrip("]").split(strategy)
        rest = "-".join(part.strip("-") for part in parts if part.strip("-"))
        name = f"{base}[{rest}]" if bracket and rest else base
    return f"{item.path.stem.removeprefix('test_')}: {name.removeprefix('test_')}"


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "known" if report.skipped else "FAIL"
    return {"passed": "ok", "failed": "FAIL", "skipped": "skipped"}[report.outcome]


def _reason(report: pytest.TestReport) -> str:
    if report.passed:
        return ""
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail)
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return text.strip().partition("\n")[0][:200]
