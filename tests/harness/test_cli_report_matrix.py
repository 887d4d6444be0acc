"""`lockstep report` of a matrix in the forms of machines: what failed tests say, at its lines."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from click.testing import CliRunner

from harness.cli.report import report
from harness.judging.diagnostics import Diagnostic, Label
from harness.report import Cell, Matrix

_LABEL = Label("train.py", 3, "loss = tf.reduce_mean(losses)", 7, 29, "each replica's mean")
_FOUND = Diagnostic("error", "loss_times_replicas", "the loss is too large", "train.py:train", "mirrored-2", _LABEL)


def _written(folder: Path) -> Path:
    verdict = {"diagnostic": msgspec.to_builtins(_FOUND), "seconds": 2.5}
    cells = [
        Cell("test_train", "mirrored-2", outcome, verdicts=(verdict,), test=f"tests/test_it.py::test_{outcome}")
        for outcome in ("FAIL", "ok", "known")
    ]
    cells += [Cell("test_fine", "mirrored-2", "FAIL", verdicts=({"diagnostic": None},), test="tests/test_it.py::test")]
    (folder / "matrix.json").write_bytes(Matrix(cells=cells).to_json())
    return folder


def _report(*arguments: str) -> str:
    done = CliRunner().invoke(report, arguments, standalone_mode=False)
    assert done.exception is None
    return done.stdout


def test_a_failed_test_annotates_its_line(tmp_path: Path) -> None:
    """One that expects a mistake and finds it, or whose mistake is known, says nothing."""
    _written(tmp_path)
    lines = _report(str(tmp_path), "--format", "github").splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("::error file=train.py,line=3,")
    assert len(json.loads(_report(str(tmp_path), "--format", "gitlab"))) == 1
    assert len(json.loads(_report(str(tmp_path), "--format", "sarif"))["runs"][0]["results"]) == 1


def test_the_page_is_written_beside_it(tmp_path: Path) -> None:
    """Both come from one reading; the table for people, and its JSON, stay as they are."""
    page = tmp_path / "matrix.html"
    assert _report(str(_written(tmp_path)), "--format", "github", "--html", str(page)).startswith("::error")
    assert "test_train" in page.read_text() or "test train" in page.read_text()
    assert "FAIL" in _report(str(tmp_path))
    assert len(json.loads(_report(str(tmp_path), "--json"))["cells"]) == 4
