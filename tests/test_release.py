"""Versions and releases: one version everywhere, and a public contract that changes on purpose only."""

from __future__ import annotations

import difflib
import json
import sys
from pathlib import Path

import pytest

import simulator.capabilities
from _lockstep import __version__
from tests._installed import ROOT, lay_out, run_there
from tools.releasing import contract as contracts

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


def test_what_is_public_is_what_the_file_says(tmp_path: Path) -> None:
    """Names, parameters, commands and options, without TensorFlow; if not, `python tools/api.py` writes the file."""
    code = "import sys; from tools.releasing.contract import contract; sys.stdout.write(contract()); "
    code += "assert not {'tensorflow', 'numpy'} & set(sys.modules)"
    now = run_there(tmp_path, sys.executable, "-c", code, site=ROOT).stdout
    difference = difflib.unified_diff((ROOT / "docs" / "public-api.txt").read_text().splitlines(), now.splitlines())
    assert list(difference) == []


def test_a_change_of_what_is_public_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that goes, a parameter that is renamed, and a default that changes are seen."""

    def link(*, delay_ms: float = 0.0, rate: int | None = None) -> None:
        """Two parameters."""

    def renamed(*, delay: float = 0.0, rate: int | None = 1) -> None:
        """One has another name, and one another default."""

    lines = [list(contracts._named("simulator.link", each)) for each in (link, renamed)]
    assert set(lines[0]) - set(lines[1]) == {
        "    keyword delay_ms: float = 0.0",
        "    keyword rate: int | None = None",
    }
    monkeypatch.setattr(contracts, "PACKAGES", {"simulator": ("simulator.capabilities",)})
    before = contracts.contract()
    monkeypatch.setattr(simulator.capabilities, "__all__", ["Capabilities", "probe"])
    gone = set(before.splitlines()) - set(contracts.contract().splitlines())
    assert "class simulator.capabilities.Capability(Struct)" in gone
