"""Build docs/ as a site: `python tools/build_site.py DIR`, with the extra `docs` installed."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.making_site.staging import stage  # noqa: E402

_SETTINGS = Path(__file__).with_name("making_site")


def build(into: Path) -> int:
    """Build the site and say how Sphinx ended: 0, or 1 after any warning."""
    from sphinx.cmd.build import build_main

    with tempfile.TemporaryDirectory(prefix="lockstep-site-") as place:
        source = Path(place, "source")
        source.mkdir()
        stage(source)
        options = ["--builder", "html", "--conf-dir", str(_SETTINGS), "--fail-on-warning", "--keep-going", "--quiet"]
        return int(build_main([*options, "--doctree-dir", str(Path(place, "trees")), str(source), str(into)]))


@click.command()
@click.argument("into", type=click.Path(path_type=Path, file_okay=False))
def main(into: Path) -> None:
    """Build it into a directory, in place of an earlier site there."""
    if into.exists() and not (into / "objects.inv").exists() and any(into.iterdir()):
        raise click.UsageError(f"{into} holds something else than a site; name an empty directory")
    shutil.rmtree(into, ignore_errors=True)
    sys.exit(build(into))


if __name__ == "__main__":
    main()
