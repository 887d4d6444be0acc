"""Verify unmodified scripts, and twins of them with one mistake each: `python tools/scripts.py`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from simulator.machines.local.scratch import scratch  # noqa: E402
from tools import pages  # noqa: E402
from tools.pages import DOCS, fill  # noqa: E402
from tools.running import at_once, json_file, named, only, to_page, track  # noqa: E402
from tools.unmodified.cases import FOLDER, Case, cases  # noqa: E402

PAGE = DOCS / "scripts.md"
_LOCKSTEP = [sys.executable, "-c", "from harness.cli import main; main()"]

EPILOG = """\b
Examples:
  python tools/scripts.py --only 'custom_loop*'
  python tools/scripts.py --json scripts.json --page
\b
Exit codes: 0 as it should be; 1 another outcome than the catalogue's; 2 usage error.
"""


class Result(msgspec.Struct, frozen=True):
    """What became of a script.

    Attributes:
        name: of the case.
        on: the strategy.
        mistake: what is wrong with it, None if it is right.
        doc: what the script is.
        answer: what the outcome had to be.
        outcome: of its verdict, or `failed`.
        rule: that explains it.
        culprit: the line that was named.
        why: nothing is judged.
        seconds: that it took.
    """

    name: str
    on: str
    mistake: str | None
    doc: str
    answer: str
    outcome: str
    rule: str | None
    culprit: str | None
    why: str | None
    seconds: float


@click.command(epilog=EPILOG)
@only
@at_once(1)
@json_file
@to_page(PAGE)
def main(only: str, jobs: int, file: Path | None, page: bool) -> None:
    """Verify every script of tools/unmodified/catalogue.toml, and see whether the outcome is the one given there.

    A right script must never be inconsistent, and a wrong one never consistent. Where nobody can know, it abstains.
    """
    results = track(named(cases(only), only), result_of, jobs, _said, file=file)
    click.echo(table(results))
    if page:
        fill(PAGE, "scripts", table(results))
    sys.exit(int(any(result.outcome != result.answer for result in results)))


def _said(result: Result) -> str:
    mark = "" if result.outcome == result.answer else "  <- not as it should be"
    why = f" ({result.why})" if result.outcome == "failed" else ""
    return f"{result.outcome}{why}, {result.seconds:.0f} s{mark}"


def result_of(case: Case) -> Result:
    """Verify one of them, by the command, in a directory of its own."""
    began = time.monotonic()
    with scratch("script") as place:
        shutil.copy(FOLDER / "scripts" / "_data.py", place)
        (place / f"{case.script}.py").write_text(case.source)
        before = sorted(place.rglob("*"))
        command = [
            "verify",
            "--json",
            "--strategy",
            case.on,
            *case.options,
            "--",
            "python",
            f"{case.script}.py",
            *case.args,
        ]
        done = subprocess.run([*_LOCKSTEP, *command], cwd=place, capture_output=True, text=True, check=False)
        after = sorted(path for path in place.rglob("*") if "__pycache__" not in str(path))
        left = [path.name for path in after if path not in before]
    try:
        found = msgspec.json.decode(done.stdout)
    except msgspec.DecodeError:
        found = {"error": done.stderr[-500:] or f"exit code {done.returncode}"}
    error = found.get("error") or (f"it has left {', '.join(left)}" if left else None)
    culprit = found.get("culprit") or {}
    return Result(
        name=case.name,
        on=" ".join((case.on, *case.options)),
        mistake=case.mistake,
        doc=case.doc,
        answer=case.answer,
        outcome="failed" if error else _outcome(found),
        rule=(found.get("explanation") or {}).get("rule"),
        culprit=f"{culprit['file']}:{culprit['line']}" if culprit else None,
        why=error or found.get("abstained"),
        seconds=round(time.monotonic() - began, 1),
    )


def _outcome(verdict: dict[str, Any]) -> str:
    broken = any(law["status"] == "broken" for law in verdict["laws"])
    return "consistent" if verdict["consistent"] else "inconsistent" if broken else "abstained"


def table(results: Sequence[Result]) -> str:
    """The results as a table in Markdown, with a line of sums."""
    right = [result for result in results if result.mistake is None]
    wrong = [result for result in results if result.mistake is not None]
    told = (
        f"{len(results)} scripts: of {len(right)} right ones {_count(right, 'consistent')} accepted, "
        f"{_count(right, 'abstained')} not judged, {_count(right, 'inconsistent')} accused; of {len(wrong)} with one "
        f"mistake {_count(wrong, 'inconsistent')} found, {_count(wrong, 'abstained')} not judged, "
        f"{_count(wrong, 'consistent')} accepted; {_count(results, 'failed')} failed."
    )
    rows = [
        (
            result.name.partition(":")[0],
            result.on,
            (result.mistake or "").replace("_", " "),
            result.outcome,
            ", ".join(filter(None, (result.rule, result.culprit))),
        )
        for result in results
    ]
    return f"{told}\n\n{pages.table(('script', 'on', 'mistake', 'outcome', 'named'), rows)}"


def _count(results: Sequence[Result], outcome: str) -> int:
    return sum(result.outcome == outcome for result in results)


if __name__ == "__main__":
    main()
