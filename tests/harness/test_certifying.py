"""Certificates of machines with GPUs: what they say, what they refuse, and that a rehearsal is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.certifying import Certificate, Trial, certificate_page, certification, certify
from harness.certifying.trials import strategies_for
from harness.errors import MissingHardware
from harness.report import Cell, Matrix
from simulator import LockstepError, UsageError
from simulator.hardware import Gpu
from tests.harness._called import json_of

ROOT = Path(__file__).parents[2]

_H100 = "GPU 0: NVIDIA H100 (compute capability 9.0), TF32 off"
_SIMULATED = "GPU 0: SIMULATED GPU 0 (host memory, CPU kernels), TF32 off"
_RIGHT = Trial("mirrored-2", 0.002, bit_equal=True, peak_bytes={"local:0 GPU:0": 2**20})


@dataclass
class Machine:
    """What a machine answers: its GPUs, the cells of its scenarios, the exit code of pytest, and its trials."""

    gpus: tuple[Gpu, ...] = (Gpu(0, "NVIDIA H100", 80 * 2**30),)
    cells: list[Cell] = field(default_factory=lambda: [_cell("ok")])
    code: int = 0
    trials: tuple[Trial, ...] = (_RIGHT,)
    asked: list[str] = field(default_factory=list)


def _cell(outcome: str, device: str = _H100, reason: str = "", ratio: float = 0.25) -> Cell:
    verdict = {"consistent": outcome == "ok", "tasks": {"local:0": {"devices": [device]}}}
    return Cell("training: fit", "mirrored-2", outcome, ratio, reason=reason, verdicts=(verdict,))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine whose answers a test may change."""
    made = Machine()

    def scenarios(directory: Path, chosen: Any, hardware: str) -> int:
        made.asked.append(hardware)
        (directory / "matrix.json").write_bytes(Matrix(cells=made.cells, hardware=hardware).to_json())
        return made.code

    monkeypatch.setattr(certification, "gpus", lambda hardware: made.gpus)
    monkeypatch.setattr(certification, "_run_scenarios", scenarios)
    monkeypatch.setattr(certification, "trials", lambda *_: made.trials)
    monkeypatch.setattr(certification, "_machine", lambda: {"TensorFlow": "2.21.0", "driver": "570.1"})
    return made


def _text(found: Certificate) -> str:
    return "\n".join(found.lines())


def test_a_machine_on_which_all_holds_is_certified(machine: Machine, tmp_path: Path) -> None:
    """Text, data and page say so, with the device, the worst ratio and the speed of each strategy."""
    found = certify(tmp_path, ())
    assert found.certified
    assert machine.asked == ["gpu"]
    for said in ("certified\n", "driver 570.1", "GPU 0: NVIDIA H100, 81920 MB", "1 ok", "0.25 of it", "2.00 ms a step"):
        assert said in _text(found)
    assert found.to_json()["certified"] is True
    assert "NVIDIA H100" in certificate_page(found)
    assert "rehearsal" not in (_text(found) + certificate_page(found)).lower().replace(".rehearsal", "")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cells": [_cell("ok"), _cell("FAIL", reason="it differs")], "code": 1}, "1 scenarios failed"),
        ({"code": 1}, "the session of scenarios failed; its output says why"),
        ({"trials": (Trial("mirrored-2", 0.002, bit_equal=False, difference="step 3"),)}, "two equal trainings under"),
        ({"trials": (Trial("mirrored-2", None, bit_equal=False, difference="out of memory"),)}, "mirrored-2 failed"),
    ],
)
def test_what_does_not_hold_is_a_reason(machine: Machine, change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    """Each of them alone is enough not to certify."""
    for name, value in change.items():
        setattr(machine, name, value)
    found = certify(tmp_path, ())
    assert not found.certified
    assert reason in found.reasons[0]
    assert _text(found).startswith("NOT certified")


def test_nothing_is_certified_of_what_did_not_run_on_a_gpu(machine: Machine, tmp_path: Path) -> None:
    """Neither without a GPU nor where all scenarios were computed on the CPU."""
    machine.cells = [_cell("ok", "cpu:2")]
    with pytest.raises(LockstepError, match="no scenario was computed on a GPU, so there is nothing to certify"):
        certify(tmp_path, ())
    for pretended in (_SIMULATED, "TPU REHEARSED on the CPU (one replica, compiled by XLA)"):
        machine.cells = [_cell("ok", pretended)]
        with pytest.raises(LockstepError, match="no scenario was computed on a GPU"):
            certify(tmp_path, ())
    machine.gpus = ()
    with pytest.raises(MissingHardware, match="a certificate needs a GPU, and TensorFlow sees none here"):
        certify(tmp_path, ())


def test_a_rehearsal_certifies_nothing_and_says_so_everywhere(machine: Machine, tmp_path: Path) -> None:
    """First and last in the text, in data, and on the page above and below the figures."""
    machine.cells = [_cell("ok", _SIMULATED)]
    found = certify(tmp_path, (), rehearse=True)
    assert machine.asked == ["gpu-simulated"]
    assert not found.certified
    assert found.to_json()["rehearsal"] is True
    lines = list(found.lines())
    assert all(line.startswith("REHEARSAL on simulated GPUs: this certifies nothing") for line in (lines[0], lines[-1]))
    assert certificate_page(found).count("REHEARSAL on simulated GPUs") == 2
    assert msgspec.json.encode(found.to_json())


def test_pytest_that_does_not_take_its_arguments_is_a_usage_error(tmp_path: Path) -> None:
    """A folder of scenarios that does not exist gives no certificate."""
    with pytest.raises(UsageError, match=r"the scenarios could not be run: .* ended with exit code 4"):
        certification._run_scenarios(tmp_path, [str(tmp_path / "none")], "gpu")


def test_strategies_are_those_that_the_gpus_allow() -> None:
    """With one GPU replicas split it, and NCCL is left out; with more each has its own."""
    assert strategies_for(1) == ("one_device", "mirrored-2", "central_storage-2", "multi_worker-2")
    assert strategies_for(16)[1:] == (
        "mirrored-8",
        "central_storage-2",
        "multi_worker-4",
        "mirrored-8:nccl",
        "multi_worker-4:nccl",
    )


@pytest.mark.full
@pytest.mark.usefixtures("simulated_gpu")
def test_a_rehearsal_of_a_real_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenario, trials and files, from the command; every strategy's training can be repeated bit for bit."""
    monkeypatch.chdir(ROOT)
    chosen = ("scenarios/test_training.py", "-k", "is_exact and one_device")
    found = json_of("certify", tmp_path / "report", "--rehearse", "--", *chosen)
    assert found["scenarios"] == {"ok": 1, "skipped": 0, "known": 0, "FAIL": 0}
    assert [trial["bit_equal"] for trial in found["trials"]] == [True] * 9, found["trials"]
    assert {trial["training"] for trial in found["trials"]} == {"variables", "Keras 3", "tf_keras", "coordinator"}
    # Two runs of 14 steps, of which two are traced: eleven times between the other twelve.
    assert {trial["steps"] for trial in found["trials"]} == {22}
    assert "in turns" in found["measured"]
    files = {path.name for path in (tmp_path / "report").iterdir()}
    assert {"matrix.json", "rehearsal.json", "rehearsal.txt", "rehearsal.html"} <= files
    assert not any(name.startswith("certificate") for name in files)
