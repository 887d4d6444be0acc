"""Build what a release consists of: `python tools/release.py DIST` twice, compares the bytes, and checks them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.releasing.building import build, exported, moment  # noqa: E402

# So different are the two builds; what comes out must not show it.
_ELSEWHERE = {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7", "LC_ALL": "C"}


@click.command()
@click.argument("dist", type=click.Path(path_type=Path, file_okay=False))
@click.option("--check/--no-check", default=True, help="Have twine and check-wheel-contents look at them.")
def main(dist: Path, check: bool) -> None:
    """Build wheel and sdist of HEAD into the folder DIST, which must be empty.

    Two builds, in other folders, time zones and with another hash seed, have to be equal byte by byte. Everything is
    dated by SOURCE_DATE_EPOCH, or else by the commit. The extra `release` has the programs that check.
    """
    if dist.exists() and any(dist.iterdir()):
        raise click.UsageError(f"{dist} is not empty")
    seconds = moment(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        first = build(exported(ROOT, Path(folder, "first")), dist, seconds)
        again = build(exported(ROOT, Path(folder, "the-second")), Path(folder, "dist"), seconds, _ELSEWHERE)
        different = [one.name for one, two in zip(first, again, strict=True) if one.read_bytes() != two.read_bytes()]
    if different:
        raise click.ClickException(f"two builds differ: {', '.join(different)}")
    for command in (["twine", "check", "--strict"], ["check_wheel_contents"]) if check else ():
        files = [str(path) for path in first if command[0] == "twine" or path.suffix == ".whl"]
        # Settings of check-wheel-contents are in pyproject.toml.
        if subprocess.run([sys.executable, "-m", *command, *files], cwd=ROOT, check=False, env=os.environ).returncode:
            raise click.ClickException(f"{command[0]} has found something, or is not installed (the extra `release`)")
    for path in first:
        click.echo(f"{path}: {path.stat().st_size} bytes, twice the same")


if __name__ == "__main__":
    main()
