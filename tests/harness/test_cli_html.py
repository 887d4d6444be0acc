"""`--html` of the commands that run something: the page that `report` makes of what they keep, without --out."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import pytest

from tests.harness._called import lockstep, usage_error

PROGRAM = "import simulator\nfor _ in range(3):\n    simulator.step()\nprint('done')\n"
TRAIN = """
def right(strategy, record):
    import tensorflow as tf

    for step in range(2):
        losses = strategy.run(lambda: tf.constant(1.0 / strategy.num_replicas_in_sync))
        record.step(loss=strategy.reduce("SUM", losses, axis=None))


def fails(strategy, record):
    raise ValueError("no data")
"""

# Which journal a timeline was drawn from, and by which command.
_PATHS = re.compile(r"[^ <>\"]*journal\.jsonl|<h2>.*</h2>|<pre>cd .*</pre>")


def test_a_run_is_drawn_as_report_draws_it(tmp_path: Path) -> None:
    """Where --out keeps it as well, both pages are the same."""
    (tmp_path / "program.py").write_text(PROGRAM)
    page, out = tmp_path / "page.html", tmp_path / "out"
    run = ("run", "--worker", 2, "--quiet", "--html", page)
    command = ("--", sys.executable, tmp_path / "program.py")
    lockstep(*run, "--out", out, *command)
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "<title>Lockstep " in text
    assert "worker:1" in text
    assert f"<pre>cd {Path.cwd()} &amp;&amp; lockstep run --worker 2 --quiet --html {page} --out " in text
    again = tmp_path / "again.html"
    lockstep("report", out, "--html", again)
    assert _PATHS.sub("", again.read_text()) == _PATHS.sub("", text)
    lockstep(*run, *command)  # over the page of an earlier run


def test_verdicts_are_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is left; what was not judged is on no page."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "train.py").write_text(TRAIN)
    page = tmp_path / "page.html"
    told = ("--strategy", "mirrored-2", "--exact", "--no-prove", "--html", page)
    lockstep("verify", f"{tmp_path}/train.py:right", *told)
    text = page.read_text()
    assert all(each in text for each in ("<title>Lockstep ", "consistent", "mirrored-2", "<svg"))
    assert not [path for path in tmp_path.iterdir() if "page" in path.name and path != page]
    page.unlink()
    lockstep("verify", f"{tmp_path}/train.py:fails", "--html", page, code=3)
    assert not page.exists()


def test_proofs_are_a_page(tmp_path: Path) -> None:
    """With what a terminal shows of each."""
    (tmp_path / "train.py").write_text(TRAIN)
    page = tmp_path / "page.html"
    lockstep("prove", f"{tmp_path}/train.py:right", "--html", page, code=5)  # it trains nothing
    text = page.read_text()
    assert all(each in text for each in ("<title>Lockstep proofs", "train.py:right under mirrored-2: open"))


@pytest.mark.parametrize("command", [
    ("run", "--worker", 1, "--", "true"),
    ("verify", "train.py:right"),
    ("prove", "train.py:right"),
    ("search", "train.py:right", "--strategy", "default"),
])  # fmt: skip
def test_another_file_is_not_written_over(command: tuple[object, ...], tmp_path: Path) -> None:
    """It is said before anything starts."""
    (tmp_path / "mine.html").write_text("mine")
    name, *rest = command
    assert "Lockstep has not written it" in usage_error(name, "--html", tmp_path / "mine.html", *rest)
    assert (tmp_path / "mine.html").read_text() == "mine"


@pytest.mark.parametrize("command", [
    ("run", "--html", "{}", "--worker", 1, "--", "touch", "begun"),
    ("verify", "--html", "{}", "train.py:right"),
    ("verify", "--baseline", "{}", "--update-baseline", "train.py:right"),
    ("report", "--trace", "{}", "."),
])  # fmt: skip
def test_what_cannot_be_written_is_said_before_anything_starts(command: tuple[object, ...], here: Path) -> None:
    """Also to root, whom no mode of a file stops."""
    (here / "train.py").write_text(TRAIN)
    said = usage_error(*(str(each).format("/proc/page") for each in command))
    assert "/proc/page cannot be written: " in said
    assert not (here / "begun").exists()
