"""The catalogue of strategies: every name of the contract, and what each one means."""

from __future__ import annotations

import pytest

from harness import catalogue, strategy_case
from harness.subject.strategies.tpu import tpu_of
from simulator import UsageError

# name: kind, replicas, clients, topology as text, devices of a worker (or of the only task)
CONTRACT: dict[str, tuple[str, int, tuple[str, ...], str, str]] = {
    "default": ("default", 1, ("local:0",), "one local process", "cpu:1"),
    "one_device": ("one_device", 1, ("local:0",), "one local process", "cpu:1"),
    "mirrored-1": ("mirrored", 1, ("local:0",), "one local process", "cpu:1"),
    "mirrored-4": ("mirrored", 4, ("local:0",), "one local process", "cpu:4"),
    "mirrored-12": ("mirrored", 12, ("local:0",), "one local process", "cpu:12"),
    "central_storage-3": ("central_storage", 3, ("local:0",), "one local process", "cpu:3"),
    "multi_worker-1": ("multi_worker", 1, ("worker:0",), "1 worker", "cpu:1"),
    "multi_worker-3": ("multi_worker", 3, ("worker:0", "worker:1", "worker:2"), "3 worker", "cpu:1"),
    "multi_worker-2x3": ("multi_worker", 6, ("worker:0", "worker:1"), "2 worker", "cpu:3"),
    "parameter_server-2w1p": ("parameter_server", 1, ("chief:0",), "1 chief, 2 worker, 1 ps", "cpu:1"),
    "tpu": ("tpu", 1, ("local:0",), "one local process", "cpu:1"),
    "dtensor-2": ("dtensor", 2, ("local:0",), "one local process", "cpu:2"),
    "dtensor-2x3": ("dtensor", 2, ("local:0",), "one local process", "cpu:6"),
    "mirrored-2:hierarchical_copy": ("mirrored", 2, ("local:0",), "one local process", "cpu:2"),
    "mirrored-2:reduction_to_one_device": ("mirrored", 2, ("local:0",), "one local process", "cpu:2"),
    "mirrored-2:nccl": ("mirrored", 2, ("local:0",), "one local process", "gpu:2"),
    "multi_worker-2:ring": ("multi_worker", 2, ("worker:0", "worker:1"), "2 worker", "cpu:1"),
    "multi_worker-2:nccl": ("multi_worker", 2, ("worker:0", "worker:1"), "2 worker", "gpu:1"),
    "parameter_server-2w2p:min_size": ("parameter_server", 1, ("chief:0",), "1 chief, 2 worker, 2 ps", "cpu:1"),
    "parameter_server-2w2p:max_size": ("parameter_server", 1, ("chief:0",), "1 chief, 2 worker, 2 ps", "cpu:1"),
    "parameter_server-2w2p:fixed_shards": ("parameter_server", 1, ("chief:0",), "1 chief, 2 worker, 2 ps", "cpu:1"),
}


@pytest.mark.parametrize("name", CONTRACT)
def test_every_name_of_the_contract_means_what_it_says(name: str) -> None:
    """Kind, replicas in sync, clients, cluster and devices follow from the name alone."""
    case = strategy_case(name)
    kind, replicas, clients, topology, devices = CONTRACT[name]
    job = "worker" if case.topology.worker else "local"
    assert (case.name, str(case), case.kind) == (name, name, kind)
    assert (case.replicas, case.clients) == (replicas, clients)
    assert (str(case.topology), str(case.topology.devices_of(job))) == (topology, devices)
    assert case.option == (name.partition(":")[2] or None)
    assert case.synchronous == (kind != "parameter_server")


def test_workers_and_servers_are_counted() -> None:
    """The numbers of a name are workers, devices and parameter servers."""
    case = strategy_case("parameter_server-3w2p")
    assert (case.workers, case.ps, case.devices) == (3, 2, 1)
    assert (strategy_case("multi_worker-2x3").workers, strategy_case("multi_worker-2x3").devices) == (2, 3)


@pytest.mark.parametrize(
    ("name", "hardware", "needs"),
    [
        ("mirrored-2", "cpu", None),
        ("mirrored-2", "gpu", "a GPU"),
        ("mirrored-2:nccl", "cpu", "2 GPUs"),
        ("multi_worker-2x2:nccl", "cpu", "4 GPUs"),
        ("tpu", "cpu", "a TPU"),
        ("mirrored-2", "tpu", "a TPU"),
        ("mirrored-2", "gpu-simulated", "a simulated GPU"),
        ("mirrored-2:nccl", "gpu-simulated", "2 simulated GPUs"),
        ("default", "cpu", None),
    ],
)
def test_needs_names_the_hardware(name: str, hardware: str, needs: str | None) -> None:
    """What cannot run on a CPU says in words what it needs."""
    assert strategy_case(name, hardware).needs == needs


@pytest.mark.parametrize(
    ("environ", "meant"),
    [
        ({}, "local"),
        ({"TPU_NAME": "mine"}, "mine"),
        ({"COLAB_TPU_ADDR": "10.0.0.2:8470"}, "grpc://10.0.0.2:8470"),
        ({"LOCKSTEP_TPU": "grpc://10.0.0.3:8470", "TPU_NAME": "mine"}, "grpc://10.0.0.3:8470"),
    ],
)
def test_a_tpu_is_local_named_or_addressed(environ: dict[str, str], meant: str) -> None:
    """What Lockstep is told comes before what the machine's maker has set."""
    assert tpu_of(environ) == meant


def test_a_gpu_strategy_computes_on_gpus() -> None:
    """Every worker gets as many GPUs as it has replicas, a parameter server none."""
    assert str(strategy_case("multi_worker-2x2", "gpu").topology.devices_of("worker")) == "gpu:2"
    servers = strategy_case("parameter_server-1w1p", "gpu").topology
    assert (str(servers.devices_of("worker")), str(servers.devices_of("ps"))) == ("gpu:1", "cpu:1")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "mirrored",
        "mirrored-0",
        "mirrored-02",
        "mirrored-100",
        "mirrored-2:ring",
        "mirrored-2x2",
        "mirrored-2 ",
        "Mirrored-2",
        "mirrored-2\n",
        "one_device-1",
        "multi_worker-2x0",
        "multi_worker-2:hierarchical_copy",
        "parameter_server-2",
        "parameter_server-2p1w",
        "parameter_server-2w0p",
        "parameter_server-2w2p:nccl",
        "tpu-8",
        "dtensor-2x0",
        None,
        2,
    ],
)
def test_an_unknown_name_lists_the_accepted_forms(name: object) -> None:
    """Neither a missing number nor a foreign option is guessed at."""
    with pytest.raises(UsageError) as caught:
        strategy_case(name)  # type: ignore[arg-type]
    assert repr(name) in str(caught.value)
    for form in ("mirrored-R", "multi_worker-WxD", "parameter_server-WwPp", ":min_size", ":ring", "tpu"):
        assert form in str(caught.value)


def test_unknown_hardware_lists_what_is_accepted() -> None:
    """A typo in the hardware is not taken for a CPU."""
    with pytest.raises(UsageError, match="hardware 'cuda' is unknown; accepted are cpu, gpu, gpu-simulated, tpu"):
        strategy_case("mirrored-2", "cuda")


def test_a_case_is_accepted_as_it_is() -> None:
    """Fixtures hand cases on, so a case stands for itself."""
    case = strategy_case("mirrored-2")
    assert strategy_case(case) is case


def test_the_catalogue_has_every_kind_and_option_once() -> None:
    """The list that `lockstep strategies` prints leaves nothing out and repeats nothing."""
    cases = catalogue()
    assert len({case.name for case in cases}) == len(cases)
    assert {case.kind for case in cases} == {kind for kind, *_ in CONTRACT.values()}
    options = {(case.kind, case.option) for case in cases}
    assert {(strategy_case(name).kind, strategy_case(name).option) for name in CONTRACT} <= options
    assert {case.hardware for case in catalogue("gpu")} == {"gpu"}


def test_a_program_of_ones_own_may_look_up_a_strategy_in_a_task() -> None:
    """What is sent by value follows functions into functions, and does not come back to where it was."""
    from dill.detect import globalvars

    assert "all_kinds" in globalvars(strategy_case, recurse=True)
