"""What the commands write fits the terminal, and is left as it is in files and pipes."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import msgspec
import pytest

from harness.cli._terminal_width import fitted
from harness.report.timeline import lines
from harness.report.timeline.model import FaultRow, Timeline

ROOT = Path(__file__).parents[2]
LOCKSTEP = [sys.executable, "-c", "from harness.cli import main; main()"]
PROSE = "  first divergence: " + "observed 27.900028, expected 13.950014; " * 5 + "[the first of 4]"
ROW = "  kill-1  kill  step 20 of worker:1  " + "1.25  " * 20


def _journal(folder: Path) -> None:
    """A run with a fault, whose row in the table is long, and with an error that is."""
    task = {"task": "worker:0", "incarnation": 0}
    message = "the gradient of layer number seven is not finite " * 6
    events = [
        {"t": 1.0, "event": "start", "topology": "1 worker", "tasks": ["worker:0"]},
        {"t": 2.0, "event": "error", **task, "kind": "ValueError", "message": message, "at": 2.0, "planned": False},
        {"t": 3.0, "event": "exit", **task, "code": 1, "signal": None, "asked": False},
    ]
    fault = {"kind": "kill", "id": "kill-1", "task": ["worker:0"], "step": 100, "of": [f"worker:{k}" for k in range(9)]}
    (folder / "0").mkdir()
    (folder / "0" / "journal.jsonl").write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
    (folder / "0" / "plan.json").write_bytes(msgspec.json.encode({"fault": [fault]}))


def _on_a_terminal(width: int, *arguments: str, code: int = 0) -> list[str]:
    """What the command writes to a terminal that is so wide."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen([*LOCKSTEP, *arguments], cwd=ROOT, stdout=follower, stderr=follower)
    os.close(follower)
    written = b""
    try:
        while piece := os.read(leader, 1 << 16):
            written += piece
    except OSError:  # Linux's way to say that nobody has it open any more
        pass
    os.close(leader)
    assert process.wait(30) == code
    return written.decode().replace("\r\n", "\n").splitlines()


def test_reports_fit_a_terminal_and_pipes_get_whole_lines(tmp_path: Path) -> None:
    """No line is longer than 80 columns on a terminal that has them; nothing is lost but the ends of rows of tables."""
    _journal(tmp_path)
    command = ["report", str(tmp_path)]
    whole = subprocess.run([*LOCKSTEP, *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert max(map(len, whole.splitlines())) > 200
    shown = _on_a_terminal(80, *command)
    assert max(map(len, shown)) <= 80
    rows = [line for line in shown if line.startswith("  kill-1 ")]
    assert [len(row) for row in rows] == [80]
    assert rows[0].endswith("…")
    # The words of the rest are all there, in their order.
    kept = [line for line in whole.splitlines() if not line.startswith(("  kill-1 ", "  fault "))]
    assert " ".join(line for line in shown if line not in rows and not line.startswith("  fault ")).split() == (
        " ".join(kept).split()
    )


def test_usage_errors_fit_too(tmp_path: Path) -> None:
    """What is wrong and what to do, in whole words."""
    shown = _on_a_terminal(80, "report", str(tmp_path), code=2)
    assert max(map(len, shown)) <= 80 + len(str(tmp_path))
    whole = subprocess.run([*LOCKSTEP, "report", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert " ".join(shown).split() == whole.stderr.split()
    assert len(whole.stderr.splitlines()[-1]) > 130


@pytest.mark.parametrize("width", [40, 80, 100])
def test_prose_is_broken_at_words_with_an_indent(width: int) -> None:
    """The same words, and what goes on stands further to the right than what it belongs to."""
    first, *others = fitted(PROSE, width).split("\n")
    assert len(first) <= width
    assert others
    assert first.startswith("  first divergence: ")
    assert all(line.startswith("      ") and len(line) <= width for line in others)
    assert " ".join([first, *others]).split() == PROSE.split()


@pytest.mark.parametrize("text", [PROSE, ROW, "short", "", "two\n\n  lines"])
def test_what_fits_or_goes_into_a_pipe_is_untouched(text: str) -> None:
    """To the last blank."""
    assert fitted(text, None) == text
    assert fitted(text, 1000) == text
    assert fitted(text, None, table=True) == text


def test_rows_are_cut() -> None:
    """Broken rows of a table cannot be read, so the end of one is left out, with a mark that it is."""
    assert fitted(ROW, 50, table=True) == ROW[:49] + "…"
    row = FaultRow(id="kill-1", kind="kill", trigger="step 20 of " + "worker:0 " * 20)
    timeline = Timeline(name="0", topology="1 worker", tasks=("worker:0",), seconds=1.0, faults=(row,))
    assert [len(line) for line in lines(timeline, 60) if line.startswith("  kill-1 ")] == [60]
    assert max(map(len, lines(timeline))) > 150


def test_a_word_that_is_longer_than_the_terminal_stays_whole() -> None:
    """A path can be copied."""
    path = "/tmp/" + "x" * 90
    assert path in fitted(f"written to {path}, which is kept", 60)
