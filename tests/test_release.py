"""Versions and releases: one version everywhere, and a public contract that changes on purpose only."""

from __future__ import annotations

import difflib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import simulator.capabilities
from _lockstep import __version__
from harness.judging.diagnostics.formats import all_formats
from tests._installed import ROOT, copied, run_there
from tools.releasing import contract as contracts
from tools.releasing.building import build, repack

_CHANGE = re.compile(r"\+[a-z0-9-]+\.(break|verdict|new|fix)\.md")


def test_everybody_tells_the_same_version(tmp_path: Path) -> None:
    """The command, SARIF, the citation and the changelog's newest heading; tests/test_installed.py has the wheel."""
    command = (sys.executable, "-c", "from _lockstep.command import main; main()", "--version")
    assert run_there(tmp_path, *command, site=ROOT).stdout == f"lockstep {__version__}\n"
    log = json.loads(all_formats()["sarif"].written([]))
    assert log["runs"][0]["tool"]["driver"]["version"] == __version__
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0].split()[1] == __version__


def test_changes_become_a_section(tmp_path: Path) -> None:
    """What waits in changes/ is under the heading of its kind, above older versions; a file of no kind is refused."""
    (tmp_path / "changes").mkdir()
    for file in ("pyproject.toml", "CHANGELOG.md"):
        (tmp_path / file).write_text((ROOT / file).read_text())
    for kind in ("break", "verdict", "new", "fix"):
        (tmp_path / "changes" / f"+one.{kind}.md").write_text(f"A change of kind {kind}.\n")
    told = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", "9.0.0", "--date", "2026-01-31"]
    subprocess.run(told, cwd=tmp_path, check=True, capture_output=True)
    log = (tmp_path / "CHANGELOG.md").read_text()
    section = log.split("\n## ")[1]
    assert section.startswith("9.0.0 (2026-01-31)\n")
    assert [line for line in section.splitlines() if line.startswith("- ")] == [
        f"- A change of kind {kind}." for kind in ("break", "verdict", "new", "fix")
    ]
    waiting = [path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
    assert [name for name in [*waiting, "+one.other.md"] if not _CHANGE.fullmatch(name)] == ["+one.other.md"]


def test_what_is_public_is_what_the_file_says() -> None:
    """Names, parameters, commands and options; if not, `python tools/api.py` writes the file."""
    before = (ROOT / "docs" / "public-api.txt").read_text().splitlines()
    assert list(difflib.unified_diff(before, contracts.contract().splitlines())) == []


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


def _packed(folder: Path, names: tuple[str, ...], seconds: int) -> bytes:
    for name in names:
        (folder / name).write_text(name)
        os.utime(folder / name, (seconds, seconds))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in names:
            archive.add(folder / name, name)
    return out.getvalue()


def test_an_archive_does_not_say_when_where_and_by_whom_it_was_packed(tmp_path: Path) -> None:
    """The same files in another order, with other dates, are the same bytes; another file is not."""
    one, two = _packed(tmp_path, ("a", "b"), 10**9), _packed(tmp_path, ("b", "a"), 10**9 + 7)
    assert one != two
    assert repack(one, 5) == repack(two, 5)
    assert repack(one, 5) not in {repack(one, 6), repack(_packed(tmp_path, ("a", "c"), 10**9), 5)}
    with tarfile.open(fileobj=io.BytesIO(repack(one, 5))) as archive:
        assert {(each.name, each.mtime, each.uid, each.mode) for each in archive} == {
            ("a", 5, 0, 0o644),
            ("b", 5, 0, 0o644),
        }


@pytest.mark.full  # packs and builds twice
def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    """Wheel and sdist, from other folders, and in other time zones."""
    built = [
        build(copied(tmp_path / name), tmp_path / f"dist-{name}", 1_700_000_000, {"TZ": zone, "PYTHONHASHSEED": seed})
        for name, zone, seed in (("one", "UTC", "1"), ("another", "Asia/Tokyo", "2"))
    ]
    assert [path.name for path in built[0]] == [
        f"tf_lockstep-{__version__}.tar.gz",
        f"tf_lockstep-{__version__}-py3-none-any.whl",
    ]
    for first, second in zip(*built, strict=True):
        assert first.read_bytes() == second.read_bytes()
