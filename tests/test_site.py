"""The site: its pages stand where links lead, and each law, code, fault and strategy has its words on one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.judging.laws import all_laws
from harness.subject.strategies import all_kinds as all_strategies
from simulator.faults.kinds import all_kinds as all_faults
from tools.making_site import meanings, reference, staging
from tools.making_site.codes import shown_codes
from tools.making_site.navigation import NAVIGATION

ROOT = Path(__file__).parent.parent
KNOWN = {
    "laws": [law.id for law in all_laws()],
    "codes": [code.name for code in shown_codes()],
    "faults": list(all_faults()),
    "strategies": list(all_strategies()),
}


@pytest.mark.parametrize("name", KNOWN)
def test_everything_of_a_kind_is_on_its_page(name: str) -> None:
    """Each has a heading, in the order of reports, and at least a sentence of its own file below it."""
    page = meanings.pages()[name]
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == KNOWN[name]
    for section in page.split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        assert re.match(r"\n*[A-Z`].{20,}\.", text), heading


def test_every_page_stands_in_the_navigation_once() -> None:
    """Pages of docs/ and pages that are made; a new one has to be put somewhere."""
    listed = [page for pages in NAVIGATION.values() for page in pages]
    made = {f"reference/{name}" for name in (*meanings.pages(), *reference.pages())}
    written = {f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")} | {
        "CONTRIBUTING",
        "CHANGELOG",
        "changes/README",
    }
    assert len(listed) == len(set(listed))
    assert set(listed) == made | written


def test_links_to_files_lead_to_pages_that_show_them(tmp_path: Path) -> None:
    """A link to a source, to a folder and to an example holds on the site too, and code blocks are left as they are."""
    staging.stage(tmp_path)
    page = (tmp_path / "docs" / "known-issues.md").read_text()
    assert "(../harness/judging/known_issues.toml.md)" in page
    assert "Defects of TensorFlow and Keras" in (tmp_path / "harness/judging/known_issues.toml.md").read_text()
    assert "(upstream/index.md)" in page
    assert "(keras3-ema-overwrite.py.md)" in (tmp_path / "docs/upstream/index.md").read_text()
    assert "(docs/getting-started.md)" in (tmp_path / "index.md").read_text()
    missing = [
        (str(found.relative_to(tmp_path)), target)
        for found in tmp_path.rglob("*.md")
        for target, path in staging._targets(found.relative_to(tmp_path), found.read_text())
        if not (tmp_path / path).exists()
    ]
    assert missing == []


@pytest.mark.full
def test_the_site_is_built_without_a_warning_and_asks_nobody(tmp_path: Path) -> None:
    """Every link and anchor holds, every docstring is read, and no page loads anything from elsewhere."""
    pytest.importorskip("sphinx", reason="the extra docs is not installed; make site installs it")
    command = [sys.executable, str(ROOT / "tools" / "build_site.py"), str(tmp_path / "site")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 50
    loaded = re.compile(r"<(?:script|img|iframe|source)[^>]* src=\"(?:https?:)?//|<link[^>]* href=\"(?:https?:)?//")
    assert [page.name for page in pages if loaded.search(page.read_text())] == []
    styles = (tmp_path / "site" / "_static").rglob("*.css")
    assert [
        style.name for style in styles if re.search(r"@import|url\((?:['\"])?(?:https?:)?//", style.read_text())
    ] == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("line", "says"),
    [("[x](faults.md#no-such-heading)", "no-such-heading"), ("[x](no-such-page.md)", "no-such-page")],
)
def test_a_link_that_leads_nowhere_fails_the_build(line: str, says: str, tmp_path: Path) -> None:
    """Sphinx hears of it, whether the page or only the heading is not there."""
    pytest.importorskip("sphinx", reason="the extra docs is not installed; make site installs it")
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(f"# Index\n\n```{{toctree}}\nfaults\n```\n\n{line}\n")
    (source / "faults.md").write_text("# Faults\n\n## Kinds\n")
    settings = ROOT / "tools" / "making_site"
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-c", str(settings), "-W", "--keep-going", "-q"]
    command += [str(source), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert says in done.stderr
