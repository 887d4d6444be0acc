"""Run a checkout's test files under `-p harness.tf_tests`, one at a time, and write the tables of docs/tf-tests.md.

`python tools/tf_tests.py run CHECKOUT OUT FILE...` leaves one JSON file in OUT for each test file, and goes on where it
was interrupted, also within a file that has had its time; `python tools/tf_tests.py table OUT...` writes what they hold
into the page. A failure gets a second opinion by `python tools/tf_tests.py second FILE TEST...`, which has TensorFlow's
own runner run it.
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
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from simulator.hardware.detecting import task_variables  # noqa: E402
from tools import pages  # noqa: E402

PAGE = pages.DOCS / "tf-tests.md"
# Where the page has the table of what was run on each kind of device.
REGIONS = {"cpu": "tf-tests", "gpu-simulated": "tf-tests-simulated"}
# Which reasons for a skip are one, in a few words; the first that is found in the text counts.
REASONS = {
    "TPU": "requires a (Cloud )?TPU|TPU",
    "GPU": "required (physical )?GPUs|GPU",
    "not a test": "Not a test",
}


def read(report: Path, file: str) -> dict[str, dict[str, Any]]:
    """What one run's JUnit file says of each test: its outcome, whether it used tasks, a reason, the text of a failure.

    Args:
        report: the JUnit file.
        file: the test file, relative to where pytest ran.
    """
    module = file.removesuffix(".py").replace("/", ".")
    found: dict[str, dict[str, Any]] = {}
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - just written
        kinds = [child for child in case if child.tag in ("failure", "error", "skipped")]
        outcome = kinds[0].tag if kinds else "passed"
        text = kinds[0].get("message", "") + "\n" + (kinds[0].text or "") if kinds else ""
        if outcome == "skipped" and kinds[0].get("type") == "pytest.xfail":
            outcome = "xfailed"
        names = case.get("classname", "").removeprefix(module).strip(".").split(".")
        one: dict[str, Any] = {"outcome": outcome, "seconds": float(case.get("time", 0))}
        if any(each.get("name") == "tf_tests_started" for each in case.iter("property")):
            one["tasks"] = True
        if outcome == "skipped":
            one["reason"] = _reason(text)
        if outcome in ("failure", "error"):
            one["text"] = text[:6000]
        found["::".join(filter(None, [*names, case.get("name", "")]))] = one
    return found


def _reason(text: str) -> str:
    return next((name for name, pattern in REASONS.items() if re.search(pattern, text)), "other")


def run_one(
    checkout: Path, file: str, before: Mapping[str, Any], limit: int, arguments: Sequence[str]
) -> dict[str, Any]:
    """Run one file, or what an earlier run has left of it.

    Args:
        checkout: the folder that holds the package.
        file: relative to it.
        before: what an earlier run that had its time has returned; else nothing.
        limit: in seconds, for the whole file.
        arguments: of pytest.
    """
    tests = dict(before.get("tests", {}))
    rest = [f"{file}::{name}" for name in before.get("collected", ()) if name not in tests]
    with tempfile.TemporaryDirectory() as folder:
        report, asked = Path(folder) / "report.xml", Path(folder) / "asked"
        asked.write_text("\n".join(rest or [file]))
        began = time.monotonic()
        command = [*_PYTEST, "-q", "--tb=short", f"--junitxml={report}", *arguments, f"@{asked}"]
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
        if report.exists():
            tests |= read(report, file)
        took = round(time.monotonic() - began + before.get("seconds", 0), 1)
    collected = before.get("collected") or ([] if complete else collect(checkout, file, arguments))
    return {
        "file": file,
        "complete": complete,
        "seconds": took,
        "exit": process.returncode,
        "end": printed[-3000:],
        "collected": collected,
        "tests": tests,
    }


# Names are relative to the checkout. Of a test that is interrupted after its setup JUnit's file would say that it has
# passed, if the setup's duration counted.
_OPTIONS = ("--rootdir=.", "-o", "junit_duration_report=call")
_PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *_OPTIONS)

# Until the first test runs, at most, on a busy machine; with less left a file is not begun.
_START_SECONDS = 30


def collect(checkout: Path, file: str, arguments: Sequence[str]) -> list[str]:
    """The names of the file's tests."""
    command = [*_PYTEST, "-q", "--collect-only", *arguments, file]
    printed = subprocess.run(command, cwd=checkout, stdout=subprocess.PIPE, text=True, check=False).stdout
    return [line.removeprefix(f"{file}::") for line in printed.splitlines() if line.startswith(f"{file}::")]


def in_order(names: Iterable[str], first: str) -> list[str]:
    """Those that match the pattern before the others, each as the file has them."""
    return sorted(names, key=lambda name: re.search(first, name, re.IGNORECASE) is None)


@click.group()
def main() -> None:
    """See the module."""


@main.command()
@click.argument("checkout", type=click.Path(path_type=Path, exists=True))
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, required=True)
@click.option("--seconds", default=130, help="for one test")
@click.option("--limit", default=900, help="in seconds, for one file")
@click.option("--total", default=10**6, help="in seconds, for all files; what is left goes on in the next run")
@click.option("--hardware", type=click.Choice(list(REGIONS)), default="cpu", help="what tests run on")
@click.option("--processes", default=0, help="of xdist's, which share a file's tests")
@click.option("--first", default="", help="a pattern of names: of a file that may be cut off, run these tests first")
def run(
    checkout: Path,
    out: Path,
    files: Sequence[str],
    seconds: int,
    limit: int,
    total: int,
    hardware: str,
    processes: int,
    first: str,
) -> None:
    """Run these test files of a checkout; on other hardware than CPUs those tests that want GPUs, by their names."""
    # In the background of a shell it is ignored, also by what is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out.mkdir(parents=True, exist_ok=True)
    arguments = ["-p", "harness.tf_tests", f"--tf-test-seconds={seconds}", f"--hardware={hardware}"]
    arguments += [] if hardware == "cpu" else ["-k", "gpu and not requiredgpus_0"]
    arguments += ["-n", str(processes)] if processes else []
    until = time.monotonic() + total
    for file in files:
        left = min(limit, int(until - time.monotonic()))
        target = out / f"{file.replace('/', '.')}.{hardware}.json"
        before = json.loads(target.read_text()) if target.exists() else {}
        if before.get("complete") or left < _START_SECONDS:
            continue
        if first and not before:
            before = {"collected": in_order(collect(checkout, file, arguments), first)}
        found = {"hardware": hardware, **run_one(checkout, file, before, left, arguments)}
        target.write_text(json.dumps(found, indent=1))
        outcomes = Counter(each["outcome"] for each in found["tests"].values())
        print(f"{file}: {dict(outcomes)} of {len(found['collected']) or 'all'}, {found['seconds']} s", flush=True)


@main.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.argument("tests", nargs=-1)
@click.option("--hardware", type=click.Choice(list(REGIONS)), default="cpu", help="what tests run on")
def second(file: Path, tests: Sequence[str], hardware: str) -> None:
    """Run a test file, or tests `Class.test` of it, by TensorFlow's own unchanged runner; needs `tblib`.

    That runner starts its program again by its name, which has to hold "bazel" and must not end in `.py`.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, f"{file.stem}_bazel")
        program.write_text(f"#!{sys.executable}\n{file.read_text()}")
        program.chmod(0o755)
        devices = {"CUDA_VISIBLE_DEVICES": "-1"} if hardware == "cpu" else task_variables(hardware)
        environment = {**os.environ, **devices}
        sys.exit(subprocess.run([str(program), *tests], env=environment, check=False).returncode)


@main.command()
@click.argument("out", type=click.Path(path_type=Path, exists=True), nargs=-1, required=True)
def table(out: Sequence[Path]) -> None:
    """Write the tables into the page; a row that is there stays unless its file has been run again."""
    found = [json.loads(path.read_text()) for folder in out for path in sorted(folder.glob("*.json"))]
    for hardware, name in REGIONS.items():
        rows = rows_of(pages.region(PAGE.read_text(), name)) | {
            each["file"]: row_of(each) for each in found if each["hardware"] == hardware
        }
        pages.fill(PAGE, name, region(rows))
        print(region(rows))


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
    tests = each["tests"].values()
    passed = [one for one in tests if one["outcome"] in ("passed", "xfailed")]
    failed = [one for one in tests if one["outcome"] in ("failure", "error")]
    reasons = Counter(one["reason"] for one in tests if one["outcome"] == "skipped")
    collected = len(each["collected"]) or len(tests)
    used = sum(one.get("tasks", False) for one in passed)
    skipped = [reasons[name] for name in ("GPU", "TPU", "not a test", "other")]
    return Row(each["complete"], (collected, len(passed), used, len(failed), *skipped))


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
