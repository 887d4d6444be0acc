"""Sessions of pytest with `harness.tf_tests`, each in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

_SECONDS_MAX = 240


def run(folder: Path, *arguments: str) -> tuple[Mapping[str, str], str]:
    """Run pytest there, with the plugin; the outcome of each test by name, and what was printed, with the exit code."""
    if not (folder / "pytest.ini").exists():
        (folder / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "harness.tf_tests", "--junitxml=out.xml", "-rA", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    found = {}
    for case in ET.parse(folder / "out.xml").getroot().iter("testcase"):
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        kind = kinds[0] if kinds else "passed"
        if kind == "skipped" and case.findall("skipped")[0].get("type") == "pytest.xfail":
            kind = "xfailed"
        found[str(case.get("name"))] = kind
    return found, f"{done.stdout}{done.stderr}\nexit code {done.returncode}"


def meant(name: str) -> str:
    """The outcome that a test has in its name."""
    word = re.sub(r"_test_(mode|numworkers|required).*", "", name).rsplit("_", 1)[-1]
    return {"passes": "passed", "fails": "failure", "skips": "skipped", "xfails": "xfailed"}[word]
