"""Run a checkout's test files under `-p harness.tf_tests`, one at a time, and write the table of docs/tf-tests.md.

`python tools/tf_tests.py run CHECKOUT OUT FILE...` leaves one JSON file in OUT for each test file, and goes on where it
was interrupted; `python tools/tf_tests.py table OUT...` writes what they hold into the page. A failure gets a second
opinion by `python tools/tf_tests.py second FILE TEST...`, which has TensorFlow's own runner run it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import click

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tf-tests.md"
BEGIN, END = "<!-- tf-tests:begin -->", "<!-- tf-tests:end -->"
# Which reasons for a skip are one, in a few words; the first that is found in the text counts.
REASONS = {
    "TPU": "requires a (Cloud )?TPU|TPU",
    "GPU": "required (physical )?GPUs|GPU",
    "not a test": "Not a test",
}


def read(report: Path) -> dict[str, Any]:
    """What one run's JUnit file says: outcomes, those that used tasks, reasons of skips, texts of failures."""
    outcomes: Counter[str] = Counter()
    with_tasks: Counter[str] = Counter()
    skips: Counter[str] = Counter()
    failures = {}
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - just written
        kinds = [child for child in case if child.tag in ("failure", "error", "skipped")]
        outcome = kinds[0].tag if kinds else "passed"
        text = kinds[0].get("message", "") + "\n" + (kinds[0].text or "") if kinds else ""
        if outcome == "skipped" and kinds[0].get("type") == "pytest.xfail":
            outcome = "xfailed"
        outcomes[outcome] += 1
        used = any(each.get("name") == "tf_tests_started" for each in case.iter("property"))
        with_tasks[outcome] += used
        if outcome == "skipped":
            skips[_reason(text)] += 1
        if outcome in ("failure", "error"):
            failures[f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"] = text[:6000]
    return {"outcomes": outcomes, "with_tasks": with_tasks, "skips": skips, "failures": failures}


def _reason(text: str) -> str:
    return next((name for name, pattern in REASONS.items() if re.search(pattern, text)), "other")


def run_one(checkout: Path, file: str, seconds: int, limit: int, arguments: Sequence[str]) -> dict[str, Any]:
    """Run one file.

    Args:
        checkout: the folder that holds the package.
        file: relative to it.
        seconds: for one test.
        limit: in seconds, for the whole file.
        arguments: more of pytest's.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        began = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-p", "harness.tf_tests", "-q", "--tb=short", f"--junitxml={report}"]
        command += [f"--tf-test-seconds={seconds}", "-p", "no:cacheprovider", *arguments, file]
        process = subprocess.Popen(
            command, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        complete = True
        try:
            printed, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            complete = False
            process.send_signal(signal.SIGINT)  # as Ctrl-C: what has run is still reported
            try:
                printed, _ = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.terminate()
                printed, _ = process.communicate()
        found = read(report) if report.exists() else {"outcomes": {}, "with_tasks": {}, "skips": {}, "failures": {}}
        took = round(time.monotonic() - began, 1)
    return {
        "file": file,
        "complete": complete,
        "seconds": took,
        "exit": process.returncode,
        "end": printed[-3000:],
        **found,
    }


@click.group()
def main() -> None:
    """See the module."""


@main.command()
@click.argument("checkout", type=click.Path(path_type=Path, exists=True))
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, required=True)
@click.option("--seconds", default=130, help="for one test")
@click.option("--limit", default=900, help="in seconds, for one file")
def run(checkout: Path, out: Path, files: Sequence[str], seconds: int, limit: int) -> None:
    """Run these test files of a checkout."""
    # In the background of a shell it is ignored, also by what is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out.mkdir(parents=True, exist_ok=True)
    for file in files:
        target = out / f"{file.replace('/', '.')}.json"
        if target.exists():
            continue
        found = run_one(checkout, file, seconds, limit, ())
        target.write_text(json.dumps(found, indent=1))
        print(f"{file}: {dict(found['outcomes'])} {found['seconds']} s", flush=True)


@main.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.argument("tests", nargs=-1)
def second(file: Path, tests: Sequence[str]) -> None:
    """Run a test file, or tests `Class.test` of it, by TensorFlow's own unchanged runner; needs `tblib`.

    That runner starts its program again by its name, which has to hold "bazel" and must not end in `.py`.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, f"{file.stem}_bazel")
        program.write_text(f"#!{sys.executable}\n{file.read_text()}")
        program.chmod(0o755)
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
        sys.exit(subprocess.run([str(program), *tests], env=environment, check=False).returncode)


@main.command()
@click.argument("out", type=click.Path(path_type=Path, exists=True), nargs=-1, required=True)
def table(out: Sequence[Path]) -> None:
    """Write the table into the page; a row that is there stays unless its file has been run again."""
    text = PAGE.read_text()
    rows = rows_of(text) | {
        each["file"]: row_of(each)
        for folder in out
        for each in (json.loads(path.read_text()) for path in sorted(folder.glob("*.json")))
    }
    written = region(rows)
    PAGE.write_text(re.sub(f"{BEGIN}\n.*?{END}", lambda _: f"{BEGIN}\n{written}\n{END}", text, flags=re.DOTALL))
    print(written)


@dataclass(frozen=True)
class Row:
    """What is said of one file: whether it was run to its end, and the numbers of `COLUMNS`."""

    complete: bool
    numbers: tuple[int, ...]


COLUMNS = ("collected", "passed", "of these with tasks", "failed", "skipped: GPU", "TPU", "not a test", "other")


def rows_of(page: str) -> dict[str, Row]:
    """The rows of files that a page has."""
    found = re.findall(r"^\| `(\S+)`( \(cut off\))? \|((?: \d+ \|)+)$", page, re.MULTILINE)
    return {file: Row(not cut, tuple(map(int, re.findall(r"\d+", numbers)))) for file, cut, numbers in found}


def row_of(each: Mapping[str, Any]) -> Row:
    """The row of a file that was run."""
    outcomes, skips, with_tasks = each["outcomes"], each["skips"], each["with_tasks"]
    failed = outcomes.get("failure", 0) + outcomes.get("error", 0)
    passed = outcomes.get("passed", 0) + outcomes.get("xfailed", 0)
    used = with_tasks.get("passed", 0) + with_tasks.get("xfailed", 0)
    reasons = [skips.get(name, 0) for name in ("GPU", "TPU", "not a test", "other")]
    return Row(each["complete"], (sum(outcomes.values()), passed, used, failed, *reasons))


def region(rows: Mapping[str, Row]) -> str:
    """One line for each file, and the sums of each package."""
    lines = [f"| file | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for file, row in sorted(rows.items()):
        lines.append(_line(f"`{file}`" + ("" if row.complete else " (cut off)"), row.numbers))
    for package in sorted({file.partition("/")[0] for file in rows}):
        own = [row.numbers for file, row in rows.items() if file.partition("/")[0] == package]
        lines.append(_line(f"**{package}: {len(own)} files**", [sum(column) for column in zip(*own, strict=True)]))
    return "\n".join(lines)


def _line(name: str, numbers: Iterable[int]) -> str:
    return f"| {name} | {' | '.join(map(str, numbers))} |"


if __name__ == "__main__":
    main()
