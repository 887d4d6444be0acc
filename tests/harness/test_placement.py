"""Where a run was computed: the law, what reports say, and what is refused, on simulated GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from harness import MissingHardware, StrategyCase, strategy_case, verify
from harness.evidence.counters import DevicePlacement
from harness.evidence.trace import RunTrace
from harness.judging.laws import Case, Judgement, all_laws
from harness.judging.tolerance import ExactTolerance
from harness.report import Cell, Matrix
from harness.report.pages import matrix_page
from simulator import RunFailed
from simulator.hardware.simulated import COUNT_VARIABLE
from tests.harness._mistaken import commuting
from tests.harness._programs import exact
from tests.harness._traces import client, step

_LAW = next(law for law in all_laws() if law.id == "placed_on_devices")
_RIGHT = DevicePlacement(
    replicas=("GPU:0", "GPU:1"),
    there=("CPU:0", "GPU:0", "GPU:1"),
    variables={"w": ("GPU:0", "GPU:1"), "b": ("GPU:0", "GPU:1")},
    peak_bytes={"GPU:0": 4096, "GPU:1": 4096},
)


def _judged(
    placement: DevicePlacement | None, strategy: str = "mirrored-2", device: str = "GPU 0: NVIDIA"
) -> Judgement:
    case = _case(placement, strategy, device)
    assert _LAW.concerns(case)
    return _LAW.judge(case)


def _case(placement: DevicePlacement | None, strategy: str, device: str) -> Case:
    trace = client(step(1), replicas=2, placement=placement)
    header = msgspec.structs.replace(trace.header, strategy=strategy, devices=(device,))
    return Case(RunTrace((msgspec.structs.replace(trace, header=header),)), RunTrace((client(),)), ExactTolerance())


def test_replicas_and_their_copies_on_their_gpus_hold() -> None:
    """Each variable's copies stand where the replicas do, in the same order."""
    judgement = _judged(_RIGHT)
    assert (judgement.status, judgement.compared, judgement.suffices) == ("held", 4, False)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"there": ("CPU:0", "GPU:0")},
            "replica 1 was to compute on GPU:1, which TensorFlow does not have (it has GPU:0)",
        ),
        ({"replicas": ("GPU:0", "GPU:0")}, "2 replicas computed on 1 devices: GPU:0, GPU:0"),
        ({"replicas": ("GPU:0", "CPU:0")}, "replica 1 computed on CPU:0"),
        ({"peak_bytes": {"GPU:0": 4096, "GPU:1": 0}}, "replica 1 was to compute on GPU:1, and nothing was ever in"),
        ({"variables": {"w": ("GPU:0", "CPU:0")}}, "variable 'w' stood on GPU:0, CPU:0 and not on GPU:0, GPU:1"),
        ({"variables": {"w": ("CPU:0",)}}, "variable 'w' stood on CPU:0 and not on GPU:0, GPU:1"),
        (
            {"variables": {"w": ("GPU:1", "GPU:0")}},
            "the copies of variable 'w' stood on GPU:1, GPU:0, in another order",
        ),
    ],
)
def test_what_stood_elsewhere_is_found(change: dict[str, Any], told: str) -> None:
    """A split that was not honoured, soft placement, and a variable in host memory break the law."""
    judgement = _judged(msgspec.structs.replace(_RIGHT, **change))
    assert judgement.status == "broken"
    assert f"worker:0: {told}" in judgement.findings[0].text


def test_central_storage_keeps_variables_on_the_cpu() -> None:
    """That is what the strategy is for, so a variable on a GPU is the finding there."""
    kept = msgspec.structs.replace(_RIGHT, variables={"w": ("CPU:0",)})
    assert _judged(kept, "central_storage-2").status == "held"
    assert _judged(_RIGHT, "central_storage-2").status == "broken"


def test_what_is_not_known_is_not_judged() -> None:
    """Workers of parameter servers are other processes, and one that was killed wrote nothing down."""
    assert _judged(_RIGHT, "parameter_server-1w1p").status == "not_judged"
    assert _judged(None).status == "not_judged"
    assert not _LAW.concerns(_case(None, "mirrored-2", "cpu:2"))


def test_the_page_of_a_matrix_says_where_cells_were_computed() -> None:
    """With the device of each replica and variable; a matrix from CPUs has no such part."""
    placement = {"local:0": msgspec.to_builtins(_RIGHT)}
    verdict = {"tasks": {"local:0": {"devices": ["GPU 0: NVIDIA H100", "GPU 1: NVIDIA H100"]}}, "placement": placement}
    page = matrix_page(Matrix(cells=[Cell("row", "mirrored-2", "ok", verdicts=(verdict,))]))
    assert "<td>NVIDIA H100</td>" in page
    assert "local:0: replicas on GPU:0, GPU:1; w on GPU:0, GPU:1" in page
    verdict = {"tasks": {"local:0": {"devices": ["cpu:2"]}}}
    assert "computed" not in matrix_page(Matrix(cells=[Cell("row", "mirrored-2", "ok", verdicts=(verdict,))]))


@pytest.mark.full  # CI runs scenarios on simulated GPUs
@pytest.mark.usefixtures("simulated_gpu")
def test_a_right_program_is_right_on_simulated_gpus_and_says_where_it_ran() -> None:
    """Bit for bit, with its variables on the devices, which text and data of the verdict name as simulated."""
    verdict = verify(exact(), "mirrored-2", tier="exact", hardware="gpu-simulated")
    assert verdict, str(verdict)
    assert next(law for law in verdict.judgements if law.law == "placed_on_devices").status == "held"
    assert "on: local:0 GPU 0: SIMULATED GPU 0 (host memory, CPU kernels), TF32 off" in str(verdict)
    placement = verdict.to_json()["placement"]["local:0"]
    assert (placement["replicas"], placement["variables"]["w"]) == (["GPU:0", "GPU:1"], ["GPU:0", "GPU:1"])
    assert all(placement["peak_bytes"][name] > 0 for name in placement["replicas"])
    devices = verdict.to_json()["tasks"]["local:0"]["devices"]
    assert [device[:22] for device in devices] == ["GPU 0: SIMULATED GPU 0", "GPU 1: SIMULATED GPU 1"]


@pytest.mark.full
@pytest.mark.usefixtures("simulated_gpu")
def test_a_right_program_under_parameter_servers_is_right_on_a_machine_with_gpus() -> None:
    """Without a configuration of the servers every worker shows all GPUs of the machine, and trains on each of them."""
    verdict = verify(commuting(), "parameter_server-1w1p", tier="exact", hardware="gpu-simulated")
    assert verdict, str(verdict)
    assert verdict.accelerators.keys() == {"worker:0"}


@pytest.mark.full
@pytest.mark.usefixtures("simulated_gpu")
def test_a_hidden_gpu_does_not_count_for_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two replicas would share the one that is left, which NCCL refuses; so they are refused before anything starts."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(MissingHardware, match="mirrored-2:nccl needs 2 simulated GPUs, and this machine has 1;"):
        verify(exact(), "mirrored-2:nccl", hardware="gpu-simulated")


@pytest.mark.usefixtures("simulated_gpu")
def test_a_split_that_is_not_honoured_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two replicas that would both compute on the one GPU are not two replicas on two."""

    class Unsplit(StrategyCase):
        @property
        def device_text(self) -> str:
            return "gpu-simulated:1"

    monkeypatch.setenv(COUNT_VARIABLE, "1")
    case = strategy_case("mirrored-2", "gpu-simulated")
    unsplit = Unsplit(**vars(replace(case)))
    with pytest.raises(RunFailed, match=r"local:0 should have 2 logical GPUs under mirrored-2, TensorFlow sees 1"):
        verify(exact(), unsplit, tier="exact", timeout=30)
