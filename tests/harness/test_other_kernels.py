"""What right kernels may differ by counts as noise where a run computes on a device, and nothing wrong hides in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import strategy_case, verify
from harness.running.cache import CACHE_VARIABLE
from harness.running.reference import Venue, undisturbed
from harness.running.reference_request import ReferenceRequest
from harness.running.reference_runs import OTHER_KERNELS
from harness.subject.program import Program
from simulator import UsageError
from tests.harness._programs import exact, mlp


def _program(strategy: Any, record: Any) -> None:
    record.step(loss=1.0)


@pytest.mark.full
@pytest.mark.parametrize("chosen", [None, *(pytest.param(each, marks=pytest.mark.full) for each in "01")])
def test_one_rerun_computes_with_the_other_kernels(
    chosen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain reference and those with noise keep the kernels of the environment; without a device there is none."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if chosen is not None:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", chosen)
    program = Program.of(_program)
    found = undisturbed(program, Venue(1, 60.0, kernels=True), ReferenceRequest(2, (OTHER_KERNELS,)))
    # As TensorFlow itself says in each of these processes.
    used, *others = [run.header.onednn for run in (found.trace, *found.perturbed)]
    assert used is (chosen == "1") or chosen is None
    assert others == [used, used, not used]
    assert len(undisturbed(program, Venue(1, 60.0), ReferenceRequest(2)).perturbed) == 2


@pytest.mark.parametrize(
    ("strategy", "hardware", "apart"),
    [("mirrored-2", "cpu", False), ("mirrored-2", "gpu-simulated", True), ("mirrored-2:nccl", "cpu", True)],
)
def test_runs_on_a_device_compute_with_kernels_of_their_own(strategy: str, hardware: str, apart: bool) -> None:
    """NCCL needs GPUs whatever the hardware of the session is."""
    assert strategy_case(strategy, hardware).computes_apart is apart


@pytest.mark.full
@pytest.mark.usefixtures("simulated_gpu")
@pytest.mark.parametrize("mistake", ["", "divisor"])
def test_a_small_mistake_is_found_on_a_simulated_gpu(mistake: str) -> None:
    """A batch of 64 that is taken for one of 63 does not pass for other kernels; the right program does."""
    verdict = verify(mlp(mistake), "mirrored-2", hardware="gpu-simulated", explain=False)
    assert verdict.outcome == ("inconsistent" if mistake else "consistent"), str(verdict)


@pytest.mark.full
@pytest.mark.usefixtures("simulated_gpu")
def test_the_reference_may_run_on_the_device_and_both_are_shown() -> None:
    """It says where it ran, and how the run compares with that on the CPU."""
    verdict = verify(exact(), "mirrored-2", hardware="gpu-simulated", reference="device", tier="exact")
    assert verdict, str(verdict)
    assert verdict.notes == (
        "the reference ran on GPU 0: SIMULATED GPU 0 (host memory, CPU kernels), TF32 off",
        "against the reference on a CPU the run is consistent, worst ratio 0",
    )


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("device", "mirrored-2 computes on a CPU, as its reference does"),
        ("gpu", "reference='gpu' is unknown; accepted"),
    ],
)
def test_a_reference_has_a_place(reference: str, told: str) -> None:
    """A typo, and a device where there is none, are refused before anything starts."""
    with pytest.raises(UsageError, match=told):
        verify(exact(), "mirrored-2", reference=reference)
