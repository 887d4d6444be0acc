"""Pages of matrices and verdicts: what they say as text, and what a browser makes of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.judging.laws import judge_all
from harness.judging.laws.protocol import judged
from harness.judging.losses import course_of
from harness.judging.verdict import _strict
from harness.report import Cell, Matrix
from harness.report.matrix import markdown
from harness.report.pages import Verified, matrix_page, verified_page
from harness.report.templates._curve import curve
from harness.report.timeline import timeline_of, timeline_page
from tests._present import present
from tests.harness._journals import KILL, killed
from tests.harness._traces import exact_case

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = "<script>document.title = 'taken'</script>"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _verdict(**changes: Any) -> dict[str, Any]:
    """A verdict in its JSON form that is wrong in its loss, with everything that a page shows."""
    case = exact_case(loss_factor=4.0, per_replica_loss=True)
    course = present(course_of(case, 1, judge_all(case)))
    return {
        "program": "train.py:train",
        "strategy": "mirrored-2",
        "consistent": False,
        "first_divergence": {
            "step": 1,
            "observable": "loss",
            "observed": 4.0,
            "expected": 1.0,
            "bound": 0.0,
            "variable": None,
            "index": [],
        },
        "findings": [{"law": "loss_matches_reference", "text": f"step 1 {HOSTILE}"}],
        "explanation": {"rule": "loss_times_replicas", "text": f"times 4 {HOSTILE}"},
        "tasks": {"local:0": {"exit": 0, "steps": 4, "incarnation": 0}},
        "seconds": 2.0,
        "laws": [{"law": "finite", "status": "held", "reason": None, "worst_ratio": None}],
        "tier": "exact",
        "resolution": {},
        "culprit": {
            "file": "train.py",
            "line": 3,
            "source": f"loss = 1  # {HOSTILE}",
            "relation": "a mean",
            "inputs": ["x is split"],
            "expected": "1",
        },
        "ledger": ["step  local:0", f"1     {HOSTILE}"],
        "course": _strict(course.to_json()),
        "diagnostic": {
            "severity": "error",
            "code": "loss_times_replicas",
            "title": f"the loss is too large {HOSTILE}",
            "program": "train.py:train",
            "strategy": "mirrored-2",
        },
        **changes,
    }


def _matrix() -> Matrix:
    right = _verdict(consistent=True, findings=[], culprit=None, explanation=None, first_divergence=None)
    cells = [
        Cell(f"training: fit {HOSTILE}", "mirrored-2", "FAIL", float("inf"), 1.0, HOSTILE, (_verdict(),), "t.py::f"),
        Cell("training: loop", "mirrored-2", "ok", 0.2, 1.0, "", (right,)),
        Cell("training: loop", "multi_worker-2", "known", None, 1.0, "some-id: a defect"),
        Cell("precision: half", "multi_worker-2", "ok", 0.0001, 1.0, "", (right,)),
    ]
    return Matrix(cells=cells, versions={"tensorflow": "2.21.0"})


def test_a_curve_is_drawn_in_pieces() -> None:
    """A step without a loss interrupts the line, a wide range is logarithmic, and one step is none."""
    drawn = curve({"steps": [1, 2, 3, 4], "observed": [1.0, None, 10.0, 1000.0], "expected": [1.0, 1.0, 1.0, 1.0]})
    assert drawn is not None
    assert drawn.logarithmic
    assert [len(piece.split()) for piece in drawn.observed] == [1, 2]
    assert [len(piece.split()) for piece in drawn.expected] == [4]
    assert drawn.observed[1].split()[1].endswith(",12.0")  # the largest is at the top
    assert [tick.text for tick in drawn.losses] == ["1", "10", "100", "1000"]
    assert [tick.text for tick in drawn.steps] == ["1", "2", "3", "4"]
    assert curve({"steps": [1], "observed": [1.0], "expected": [1.0]}) is None
    assert curve(None) is None


@pytest.mark.parametrize(
    ("losses", "texts"),
    [
        ([0.84, 27.9], ["5", "10", "15", "20", "25"]),
        ([0.1234, 0.1236], ["0.1234", "0.12345", "0.1235", "0.12355", "0.1236"]),
        ([-3.0, 2.0], ["-3", "-2", "-1", "0", "1", "2"]),
        ([2.5, 2.5], ["2.5"]),
        ([1e-12, 1.0], ["1e-12", "1e-09", "1e-06", "0.001", "1"]),
    ],
)
def test_an_axis_has_a_few_round_numbers(losses: list[float], texts: list[str]) -> None:
    """Between the smallest loss and the largest one."""
    drawn = present(curve({"steps": [10, 400], "observed": losses, "expected": [None, None]}))
    assert [tick.text for tick in drawn.losses] == texts
    assert [tick.text for tick in drawn.steps] == ["100", "200", "300", "400"]


def test_the_course_has_losses_and_shares() -> None:
    """By step those of run and reference; at the first step that differs what each replica had."""
    course = present(course_of(exact_case(loss_factor=4.0, per_replica_loss=True), 2))
    assert course.steps == (1, 2, 3, 4)
    assert course.observed == tuple(4 * (value or 0.0) for value in course.expected)
    assert course.step == 2
    assert len(course.shares) == 4
    assert {share.examples for share in course.shares} == {16}
    assert sum(share.loss or 0.0 for share in course.shares) == course.observed[1]


def test_a_page_of_verdicts_has_all_there_is() -> None:
    """Culprit, cure, losses, replicas, ledger, logs and the command that makes it again; what is text stays text."""
    again = "cd /tmp && lockstep verify train.py:train --exact"
    page = verified_page([Verified(_verdict(), (), {"logs/local-0.log": HOSTILE})], again)
    for wanted in (
        "culprit: train.py:3",
        "error[loss_times_replicas]: the loss is too large",
        " --&gt; train.py:train under mirrored-2</pre>",
        "<polyline",
        "Replicas at step 1",
        "step  local:0",
        "logs/local-0.log",
        again.replace("&", "&amp;"),
        '<td class="FAIL" title="step 1: inf of the bound">✗</td>',
        "<title>Lockstep verdicts</title>",
    ):
        assert wanted in page
    assert HOSTILE not in page


def test_errors_are_the_worst_of_each_span() -> None:
    """Of the values that come nearest to their bounds, and nothing where no error of a step has a bound."""
    ratios: dict[tuple[int | None, str], float]
    ratios = {(step, name): step / by for step in range(1, 121) for name, by in (("w", 240.0), ("b", 100.0))}
    law = replace(judged("variables_match_reference", 1, ()), ratios={**ratios, (None, "w"): 9.0})
    course = present(course_of(exact_case(), None, [law]))
    assert course.errors is not None
    assert list(course.errors.ratios) == ["variables b", "variables w"]
    assert course.errors.spans[:2] == ((1, 2), (3, 4))
    assert (len(course.errors.spans), course.errors.ratios["variables w"][0]) == (60, 2 / 240)
    without = present(course_of(exact_case(), None, [replace(law, ratios={(None, "w"): 9.0})]))
    assert without.errors is None


def test_markdown_shows_failures_first_and_keeps_text_text() -> None:
    """The counts, the failing cell with rule, cure and line, and no markup of a name's."""
    lines = markdown(_matrix()).splitlines()
    assert lines[0] == "## Lockstep: ✅ 2 ok, ⚠️ 1 known, ❌ 1 FAIL"
    (failed,) = [line for line in lines if "loss\\_times\\_replicas" in line]
    assert "<code>train.py:3 loss = 1" in failed
    assert failed.count("|") == 5
    assert "<script>" not in markdown(_matrix())


@pytest.fixture
def browser_page() -> Iterator[tuple[Page, list[str]]]:
    """A page of a headless Chromium, and what goes wrong on it."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine to look at pages with")
    from playwright.sync_api import sync_playwright

    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        yield page, wrong
        browser.close()


def test_a_matrix_in_a_browser(browser_page: tuple[Page, list[str]], tmp_path: Path) -> None:
    """It renders, filters by words, strategy and outcome, and a cell opens its verdict; no name becomes a script."""
    page, wrong = browser_page
    (tmp_path / "matrix.html").write_text(matrix_page(_matrix()))
    page.goto((tmp_path / "matrix.html").as_uri())
    rows, count = page.locator("#matrix tbody tr:visible"), page.locator("#count")
    assert rows.count() == 3
    assert count.text_content() == "4 cells"
    page.fill("#words", "LOOP")
    assert rows.count() == 1
    assert count.text_content() == "2 cells"
    page.select_option("#strategy", label="multi_worker-2")
    assert count.text_content() == "1 cells"
    page.uncheck("input[value=known]")
    assert rows.count() == 0
    page.check("input[value=known]")
    page.fill("#words", "")
    page.select_option("#strategy", label="all")
    page.click("td.FAIL button")
    dialog = page.locator("#opened")
    assert dialog.is_visible()
    text = dialog.inner_text()
    for wanted in ("culprit: train.py:3", "times 4 <script>", "Replicas at step 1", "pytest 't.py::f'"):
        assert wanted in text
    assert dialog.locator("polyline").count() == 2
    page.click("#opened button")
    assert not dialog.is_visible()
    assert page.title() == "Lockstep matrix"
    assert wrong == []


def test_verdicts_in_a_browser(browser_page: tuple[Page, list[str]], tmp_path: Path) -> None:
    """They render, and nothing that a program says becomes a script."""
    page, wrong = browser_page
    (tmp_path / "verdicts.html").write_text(verified_page([Verified(_verdict(), (), {"log": HOSTILE})]))
    page.goto((tmp_path / "verdicts.html").as_uri())
    assert page.locator("svg.curve").is_visible()
    assert page.title() == "Lockstep verdicts"
    assert wrong == []


def test_pages_fit_a_narrow_screen(browser_page: tuple[Page, list[str]], tmp_path: Path) -> None:
    """What is wide scrolls by itself, or wraps: the page does not."""
    page, wrong = browser_page
    page.set_viewport_size({"width": 420, "height": 800})
    again = f"lockstep run --html {'a_long_name' * 9}.html"
    shown = {
        "verdicts": verified_page([Verified(_verdict(), (), {"a_long_name" * 9: HOSTILE})], again),
        "matrix": matrix_page(_matrix()),
        "timeline": timeline_page([timeline_of(killed().events, [KILL])], again),
    }
    for name, source in shown.items():
        (tmp_path / f"{name}.html").write_text(source)
        page.goto((tmp_path / f"{name}.html").as_uri())
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(over) == 0, name
    assert "ended worker:1 SIGKILL" in page.inner_text("table")
    assert wrong == []
