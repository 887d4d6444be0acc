"""What the command says of devices that are not there; nothing is started for it, and nothing is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.hardware.cache import BUILDS_VARIABLE
from simulator.hardware.simulated import building
from tests.harness._called import lockstep
from tests.harness.test_plugin import Session, session

__all__ = ["session"]

TRAIN = "def train(strategy, record): ...\n"


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program, on a machine without a compiler on which nothing was built before."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv(BUILDS_VARIABLE, str(tmp_path / "builds"))
    building.library.cache_clear()
    program = tmp_path / "train.py"
    program.write_text(TRAIN)
    return program


def test_without_a_compiler_a_simulated_gpu_is_missing_hardware(train: Path) -> None:
    """Exit code 4 and the reason, of `verify`, of `run` and of a rehearsal, which leaves no directory."""
    report = train.parent / "report"
    for arguments in (
        ("verify", f"{train}:train", "--hardware=gpu-simulated"),
        ("run", "--devices", "gpu-simulated:1", "--", "/bin/true"),
        ("certify", str(report), "--rehearse", "--", "scenarios/"),
    ):
        result = lockstep(*arguments, code=4)
        assert "the simulated GPU cannot be built here: there is no g++" in " ".join(result.output.split())
    assert not report.exists()
    building.library.cache_clear()


@pytest.mark.full
def test_without_a_compiler_tests_are_skipped_or_fail(train: Path, session: Session) -> None:
    """The skip has the reason, and under --require-hardware it is a failure."""
    tests = 'import pytest\n@pytest.mark.strategies("mirrored-2")\ndef test_training(strategy): pass\n'
    result = session(tests, "--hardware=gpu-simulated")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        ["SKIPPED*needs 1 simulated GPU: the simulated GPU cannot be built here: there is no g*"]
    )
    session(tests, "--hardware=gpu-simulated", "--require-hardware").assert_outcomes(errors=1)
