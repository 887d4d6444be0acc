"""Record the terminal sessions of docs/scripts.md: `python tools/sessions.py` runs them and writes what they print."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.pages import DOCS, fill  # noqa: E402
from tools.unmodified.cases import FOLDER, cases  # noqa: E402

PAGE = DOCS / "scripts.md"
_LOCKSTEP = [sys.executable, "-c", "from harness.cli import main; main()"]
_COLUMNS = 110

SESSIONS = (
    ("eager_loop", "lockstep verify --devices cpu:2 -- python eager_loop.py"),
    ("eager_loop:mean_of_own_examples", "lockstep verify --devices cpu:2 -- python eager_loop.py"),
    ("resume_loop", "lockstep verify --devices cpu:2 --interrupt-at 9 -- python resume_loop.py"),
    ("resume_loop:optimizer_not_saved", "lockstep verify --devices cpu:2 --interrupt-at 9 -- python resume_loop.py"),
)
"""Cases of `tools.unmodified`, and what is typed where one of them is the script."""


@click.command()
def main() -> None:
    """Run them, print them, and write them into docs/scripts.md."""
    lines = ["```text"]
    for case, command in SESSIONS:
        lines += recorded(case, command)
    text = "\n".join([*lines, "```"])
    click.echo(text)
    fill(PAGE, "sessions", text)


def recorded(name: str, command: str) -> Iterator[str]:
    """What a terminal shows of a command, with the change of the script before it if it is a twin, and its exit code.

    Args:
        name: of the case.
        command: begins with `lockstep`.
    """
    (case,) = cases(name)
    with tempfile.TemporaryDirectory(prefix="lockstep-session-") as place:
        shutil.copy(FOLDER / "scripts" / "_data.py", place)
        file = Path(place, f"{case.script}.py")
        right = (FOLDER / "scripts" / file.name).read_text()
        if case.source != right:
            yield f"$ diff right/{file.name} {file.name}"
            yield from _changed(right, case.source)
        file.write_text(case.source)
        yield f"$ {command}; echo $?"
        done = subprocess.run(
            [*_LOCKSTEP, *shlex.split(command)[1:]],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": str(_COLUMNS)},
        )
    yield from done.stdout.rstrip().splitlines()
    yield str(done.returncode)


def _changed(right: str, twin: str) -> Iterator[str]:
    before, after = right.splitlines(), twin.splitlines()
    yield from (f"< {line}" for line in before if line not in after)
    yield from (f"> {line}" for line in after if line not in before)


if __name__ == "__main__":
    main()
