"""Versions and releases: one version everywhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from _lockstep import __version__
from tests._installed import ROOT, lay_out, run_there

SHOWN = """
import json, sys
from importlib.metadata import version
from harness.judging.diagnostics.formats import all_formats
log = json.loads(all_formats()["sarif"].written([]))
json.dump([version("tf-lockstep"), log["runs"][0]["tool"]["driver"]["version"]], sys.stdout)
"""


def test_everybody_tells_the_same_version(tmp_path: Path) -> None:
    """The command, the installed metadata, SARIF and the newest heading of the changelog."""
    site = lay_out(tmp_path / "site")
    command = (sys.executable, "-c", "from _lockstep.command import main; main()", "--version")
    assert run_there(tmp_path, *command, site=site).stdout == f"lockstep {__version__}\n"
    told = run_there(tmp_path, sys.executable, "-c", SHOWN, site=site).stdout
    assert json.loads(told) == [__version__, __version__]
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0].split()[1] == __version__
