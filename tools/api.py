"""Write the public contract into docs/public-api.txt: `python tools/api.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.releasing.contract import contract  # noqa: E402


@click.command()
def main() -> None:
    """Say as a file what is public now; the difference says which kind of version it makes."""
    (ROOT / "docs" / "public-api.txt").write_text(contract())


if __name__ == "__main__":
    main()
