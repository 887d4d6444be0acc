"""Lays out what Sphinx reads: the pages at their places in the repository, and a page for each other file they lead to.

So every link holds that holds on GitHub, and one that leads nowhere fails the build.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Container, Iterator
from pathlib import Path

from tools.making_site import meanings, reference
from tools.making_site.navigation import NAVIGATION

ROOT = Path(__file__).resolve().parents[2]
_LANGUAGES = {".cc": "cpp", ".h": "cpp", ".json": "json", ".py": "python", ".toml": "toml", ".yml": "yaml"}
_LINK = re.compile(r"(?P<before>!?\[[^\]]*\]\()(?P<target>[^)\s]+)(?P<after>\))")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def stage(place: Path) -> None:
    """Fill an empty directory with everything that the site is made of."""
    pages = {Path("index.md"): front(), **_written(), **_made()}
    for path, text in pages.items():
        _write(place / path, text)
    known = {*pages, Path("README.md")}
    todo = {target for path, text in pages.items() for target in _files(path, text, known)}
    done: set[Path] = set()
    while todo:
        path = todo.pop()
        done.add(path)
        if (ROOT / path).is_dir():
            listed = _listing(path)
            _write(place / path / "index.md", listed)
            todo |= set(_files(path / "index.md", listed, known)) - done
        elif path.suffix in (".png", ".svg"):
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, place / path)
        else:
            _write(place / f"{path}.md", _shown(path))
    for page in place.rglob("*.md"):
        page.write_text(_relinked(page.relative_to(place), page.read_text()))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def front() -> str:
    """The README, with the navigation."""
    lists = [
        "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *(f"/{page}" for page in pages), "```"])
        for caption, pages in NAVIGATION.items()
    ]
    return "\n\n".join([(ROOT / "README.md").read_text(), *lists]) + "\n"


def _written() -> dict[Path, str]:
    """The pages of the repository, and the issue texts, which stand below the known issues."""
    beside = ("CONTRIBUTING.md", "CHANGELOG.md", "changes/README.md")
    paths = [*(ROOT / name for name in beside), *sorted((ROOT / "docs").glob("*.md"))]
    reports = sorted((ROOT / "docs" / "upstream").glob("*.md"))
    found = {path.relative_to(ROOT): path.read_text() for path in [*paths, *reports]}
    if reports:
        tree = "\n".join(["```{toctree}", ":hidden:", *(f"/docs/upstream/{path.stem}" for path in reports), "```"])
        found[Path("docs/known-issues.md")] += f"\n{tree}\n"
    return found


def _made() -> dict[Path, str]:
    """The pages that follow from the code."""
    return {Path("reference", f"{name}.md"): text for name, text in (meanings.pages() | reference.pages()).items()}


def _targets(page: Path, text: str) -> Iterator[tuple[str, Path]]:
    """Every link within the repository, with the path that it leads to."""
    for match in _LINK.finditer(_FENCE.sub("", text)):
        target = match["target"].partition("#")[0]
        if target and not target.startswith(("https://", "http://", "mailto:")):
            yield target, Path(os.path.normpath(page.parent / target))


def _files(page: Path, text: str, known: Container[Path]) -> Iterator[Path]:
    """What a page leads to that is no page by itself: sources, directories, pictures."""
    for _, path in _targets(page, text):
        if path not in known and (ROOT / path).exists():
            yield path


def _listing(folder: Path) -> str:
    """A page for a directory: the files in it that are kept."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", str(folder)]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    shown = [Path(file).relative_to(folder) for file in sorted(files) if Path(file).suffix in (*_LANGUAGES, ".md")]
    rows = [f"- [{each}]({each})" for each in shown]
    return "\n".join(["---", "orphan: true", "---", f"# {folder}/", "", *rows, ""])


def _shown(path: Path) -> str:
    """A page for a file: its text."""
    text = (ROOT / path).read_text()
    longest = max((len(ticks) for ticks in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    language = _LANGUAGES.get(path.suffix, "text")
    return f"---\norphan: true\n---\n# {path}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def _relinked(page: Path, text: str) -> str:
    """With links to files as links to the pages that show them."""

    def changed(match: re.Match[str]) -> str:
        target, hash_, anchor = match["target"].partition("#")
        path = Path(os.path.normpath(page.parent / target))
        if not target or target.startswith(("https://", "http://", "mailto:")) or path.suffix in (".png", ".svg"):
            return match[0]
        if path == Path("README.md"):
            path = Path("index.md")
        elif (ROOT / path).is_dir():
            path /= "index.md"
        elif path.suffix != ".md":
            path = Path(f"{path}.md")
        return f"{match['before']}{os.path.relpath(path, page.parent)}{hash_}{anchor}{match['after']}"

    kept, last = [], 0
    for fence in _FENCE.finditer(text):
        kept += [_LINK.sub(changed, text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*kept, _LINK.sub(changed, text[last:])])
