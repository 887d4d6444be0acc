"""`lockstep verify --baseline`: what is known does not fail, what is new does, and what is gone is told."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.cli._baseline import Baseline
from harness.cli._exits import Exit
from harness.judging.diagnostics import Diagnostic
from harness.judging.diagnostics.codes import FAILED
from harness.judging.diagnostics.formats import ReportedVerdict
from harness.judging.diagnostics.protocol import Label
from simulator import UsageError
from tests.harness._called import lockstep

_TRAIN = """
def train(strategy, record):
    record.step(loss=float(strategy.num_replicas_in_sync))
"""


def _reported(
    code: str | None, line: int = 7, source: str = "loss = mean(x)", strategy: str = "mirrored-2"
) -> ReportedVerdict:
    label = Label("train.py", line, source, 0, 4, "here")
    found = None if code is None else Diagnostic("error", code, "it is wrong", "train.py:train", strategy, label)
    return ReportedVerdict("train.py", "train.py:train", strategy, 1.0, found)


def _written(file: Path, *found: ReportedVerdict) -> None:
    baseline = Baseline(file, update=True)
    for each in found:
        code, reported, _ = baseline.judged(Exit.INCONSISTENT, each, said=False)
        assert (code, reported.diagnostic) == (Exit.FINE, None)
    baseline.write()


@pytest.mark.parametrize(
    ("found", "code", "gone"),
    [
        (_reported("loss_times_replicas"), Exit.FINE, []),
        (_reported("loss_times_replicas", line=12), Exit.FINE, []),
        (_reported("loss_times_replicas", source="loss = mean(y)"), Exit.INCONSISTENT, ["loss_times_replicas"]),
        (_reported("gradients_not_reduced"), Exit.INCONSISTENT, ["loss_times_replicas"]),
        (_reported("loss_times_replicas", strategy="mirrored-3"), Exit.INCONSISTENT, []),
    ],
)
def test_what_is_known_does_not_fail(tmp_path: Path, found: ReportedVerdict, code: Exit, gone: list[str]) -> None:
    """Also where lines before it have come or gone; another line, code or strategy is new."""
    _written(file := tmp_path / "known.json", _reported("loss_times_replicas"))
    now, reported, added = Baseline(file, update=False).judged(Exit.INCONSISTENT, found, said=False)
    assert (now, reported.diagnostic is None) == (code, code == Exit.FINE)
    assert added == {"baseline": {"known": code == Exit.FINE, "gone": gone}}


def test_what_is_gone_is_told_and_does_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Until it is taken out; what the command has not verified stays in the file."""
    file = tmp_path / "known.json"
    _written(file, _reported("loss_times_replicas"), _reported("loss_times_replicas", strategy="mirrored-3"))
    baseline = Baseline(file, update=True)
    assert baseline.judged(Exit.FINE, _reported(None), said=True)[0] == Exit.FINE
    assert "no longer found" in capsys.readouterr().err
    baseline.write()
    left: list[dict[str, Any]] = msgspec.json.decode(file.read_bytes())["known"]
    assert [each["strategy"] for each in left] == ["mirrored-3"]


def test_a_run_that_is_disturbed_has_mistakes_of_its_own(tmp_path: Path) -> None:
    """What is known of a plain one is neither known nor gone there, and stays in the file."""
    _written(file := tmp_path / "known.json", _reported("loss_times_replicas"))
    told = Baseline(file, update=False, disturbed="interrupt_at=3")
    code, _, added = told.judged(Exit.INCONSISTENT, _reported("loss_times_replicas"), said=False)
    assert (code, added) == (Exit.INCONSISTENT, {"baseline": {"known": False, "gone": []}})
    baseline = Baseline(file, update=True, disturbed="interrupt_at=3")
    baseline.judged(Exit.FINE, _reported(None), said=False)
    baseline.write()
    assert len(msgspec.json.decode(file.read_bytes())["known"]) == 1


def test_what_has_failed_is_never_known(tmp_path: Path) -> None:
    """Nor is anything gone then, or taken out of the file."""
    _written(file := tmp_path / "known.json", _reported("loss_times_replicas"))
    before = file.read_bytes()
    baseline = Baseline(file, update=True)
    assert baseline.judged(Exit.FAILED, found := _reported(FAILED), said=False) == (Exit.FAILED, found, {})
    baseline.write()
    assert file.read_bytes() == before


@pytest.mark.parametrize("text", [None, "", "{}", '{"version": 1, "knwon": []}', '{"version": 2, "known": []}'])
def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path, text: str | None) -> None:
    """Before anything runs; to write one needs none."""
    file = tmp_path / "known.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match="--baseline"):
        Baseline(file, update=False)
    if text is None:
        Baseline(file, update=True)
    with pytest.raises(UsageError, match="--baseline FILE"):
        Baseline(None, update=True)


def test_a_command_line_that_knows_a_mistake(here: Path) -> None:
    """It fails without, writes what it has found, and does not fail with it."""
    Path("train.py").write_text(_TRAIN)

    verified = partial(lockstep, "verify", "train.py:train", "--exact", "--no-prove", "--no-explain")
    verified("--baseline", "known.json", "--update-baseline", code=Exit.FINE)
    assert "known: " in verified("--baseline", "known.json", code=Exit.FINE).stderr
    verified(code=Exit.INCONSISTENT)
