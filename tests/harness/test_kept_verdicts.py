"""What is kept of a verification whose reference, or whose second reference, cannot be made."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness import verify
from harness.attempts import JudgedAttempt
from harness.errors import Abstained
from harness.judging.verdict import Verdict
from harness.request import VerifyRequest
from harness.verify import _beside_others
from simulator import RunFailed, RunResult, TaskError
from tests.harness._called import called, lockstep, usage_error
from tests.harness._programs import exact


def _fails(*_: Any, **__: Any) -> Any:
    error = TaskError("local:0", "Exit", "code 7", at=1.0)
    raise RunFailed((error,), RunResult({}, 0.0, Path()), during="the reference run")


@pytest.mark.parametrize("reference", ["device", "cpu"])
def test_a_verdict_stands_whatever_becomes_of_the_reference_beside_it(reference: str) -> None:
    """A note says that there is none, and why; where none is wanted nothing is run."""
    asked = VerifyRequest("exact", False, None, None, 1, 10.0, False, False, reference)
    attempt = cast("JudgedAttempt", SimpleNamespace(asked=asked, by_one_replica=_fails))
    verdict = Verdict("train.py:train", "mirrored-2", ())
    found = _beside_others(verdict, attempt)
    assert (found.consistent, found.outcome) == (verdict.consistent, verdict.outcome)
    begins = [] if reference == "cpu" else ["there is no reference on a CPU beside it"]
    assert [note.partition(": ")[0] for note in found.notes] == begins
    assert all("the reference run" in note and "code 7" in note for note in found.notes)


def test_a_run_that_has_no_reference_is_kept_with_what_is_said_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be read again, and says the same; what the run recorded is there."""

    def gives_up(*_: Any, **__: Any) -> Any:
        raise Abstained("it draws from the clock")

    monkeypatch.setattr(JudgedAttempt, "by_one_replica", gives_up)
    verdict = verify(exact(), "default", tier="exact", out=tmp_path / "out")
    assert (verdict.outcome, verdict.abstained) == ("abstained", "it draws from the clock")
    assert (tmp_path / "out" / "traces" / "local-0.trace").exists()
    saved = json.loads((tmp_path / "out" / "verdict.json").read_text())
    assert (saved["abstained"], saved["tier"]) == ("it draws from the clock", "exact")
    again = called("report", tmp_path / "out")
    assert "warning[not_judged]" in again.stdout
    assert "it draws from the clock" in again.stdout
    lockstep("compare", tmp_path / "out", tmp_path / "out", code=5)
    (tmp_path / "out" / "traces" / "local-0.trace").write_bytes(b"")
    usage_error("report", tmp_path / "out")
