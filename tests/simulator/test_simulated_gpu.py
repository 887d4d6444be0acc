"""Tasks on simulated GPUs: what TensorFlow makes of them, how they are configured, and that they are named as such."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, RunFailed, Topology, UsageError
from simulator.hardware import HardwareMissing, detecting, gpus
from simulator.hardware.cache import BUILDS_VARIABLE
from simulator.hardware.simulated import COUNT_VARIABLE, MEMORY_VARIABLE, NotBuilt, building, variables
from tests.simulator._only_run import result_of


@pytest.fixture
def two(simulated_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two simulated GPUs of 1 GiB."""
    monkeypatch.setenv(COUNT_VARIABLE, "2")
    monkeypatch.setenv(MEMORY_VARIABLE, "1024")


def _product() -> dict[str, Any]:
    """What a task sees, and where it multiplies."""
    import tensorflow as tf

    logical = [device.name for device in tf.config.list_logical_devices("GPU")]
    product = tf.matmul(tf.ones((8, 8)), tf.ones((8, 8)))
    return {
        "logical": len(logical),
        "growth": [tf.config.experimental.get_memory_growth(gpu) for gpu in tf.config.get_visible_devices("GPU")],
        "visible": [gpu.name[-1] for gpu in tf.config.get_visible_devices("GPU")],
        "at": product.backing_device.rpartition("device:")[2],
        "is": float(product[0, 0]),
        "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
    }


@pytest.mark.full  # CI runs scenarios on simulated GPUs
@pytest.mark.usefixtures("two")
def test_tensorflow_sees_as_many_as_were_asked_for() -> None:
    """It is asked in a child; simulated ones are never counted as real ones."""
    found = gpus("gpu-simulated")
    assert [gpu.index for gpu in found] == [0, 1]
    assert all(gpu.name.startswith("SIMULATED GPU") for gpu in found)
    # TensorFlow leaves a 32nd to the system, as the plugin tells it to.
    assert [gpu.memory_bytes // 2**20 for gpu in found] == [992, 992]


@pytest.mark.full  # CI runs scenarios on simulated GPUs
@pytest.mark.usefixtures("two")
def test_each_worker_computes_on_its_own(tmp_path: Path) -> None:
    """An op lands on the simulated device, grows in its memory, rounds as float32 does, and the task says so."""
    with Cluster(Topology(worker=2, devices="gpu-simulated:1"), timeout=60, out=tmp_path / "kept") as cluster:
        result = cluster.run(_product)
    for index, task in enumerate(("worker:0", "worker:1")):
        found = result[task].value
        assert found == {
            "logical": 1,
            "growth": [True],
            "visible": [str(index)],
            "at": "GPU:0",
            "is": 8.0,
            "tf32": False,
        }
        said = f"GPU {index}: SIMULATED GPU {index} (host memory, CPU kernels), TF32 off"
        assert result[task].devices == (said,)
        assert said in (tmp_path / "kept" / "0" / "journal.jsonl").read_text()


@pytest.mark.full  # which imports TensorFlow anew
@pytest.mark.usefixtures("two")
def test_an_unmodified_program_computes_on_it(tmp_path: Path) -> None:
    """It is prepared when it imports TensorFlow, and what it computed on is in its outcome."""
    (tmp_path / "train.py").write_text(
        "import tensorflow as tf\n"
        "strategy = tf.distribute.MirroredStrategy()\n"
        "print('replicas', strategy.num_replicas_in_sync, tf.matmul(tf.ones((2, 2)), tf.ones((2, 2))).backing_device)\n"
    )
    with Cluster(Topology(devices="gpu-simulated:2"), preload=(), timeout=60) as cluster:
        result = cluster.run_command([sys.executable, str(tmp_path / "train.py")])["local:0"]
    assert "replicas 2 /job:localhost/replica:0/task:0/device:GPU:0" in result.log
    assert [device[:22] for device in result.devices] == ["GPU 0: SIMULATED GPU 0", "GPU 1: SIMULATED GPU 1"]


@pytest.mark.full  # CI runs scenarios on simulated GPUs
@pytest.mark.usefixtures("two")
def test_tf32_is_on_where_that_is_asked_for() -> None:
    """And the task says so: a verdict must not be read as one about float32."""
    with Cluster(Topology(devices="gpu-simulated:1"), timeout=60, env={"LOCKSTEP_TF32": "1"}) as cluster:
        result = cluster.run(_product)["local:0"]
    assert result.value["tf32"] is True
    assert result.devices == ("GPU 0: SIMULATED GPU 0 (host memory, CPU kernels), TF32 on",)


@pytest.mark.full
@pytest.mark.usefixtures("two")
def test_a_gpu_is_split_and_its_parts_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three replicas on two GPUs split the first one, into devices that each have memory of their own."""

    def parts() -> tuple[list[str], list[bool]]:
        import tensorflow as tf

        names = [device.name[-5:] for device in tf.config.list_logical_devices("GPU")]
        with tf.device(names[2]):
            kept = tf.zeros(2**20)
        in_use = [tf.config.experimental.get_memory_info(name)["current"] >= 2**22 for name in names]
        assert kept.backing_device.endswith(names[2])
        return names, in_use

    monkeypatch.setenv("LOCKSTEP_GPU_MEMORY_MB", "100")
    result = result_of(Cluster(Topology(devices="gpu-simulated:3"), timeout=60), parts)["local:0"]
    assert result.value == (["GPU:0", "GPU:1", "GPU:2"], [False, False, True])
    assert "split into 3 of 100 MB" in result.devices[0]


@pytest.mark.full  # TensorFlow waits 10 s for memory before it gives up
@pytest.mark.usefixtures("two")
def test_a_part_has_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into one part is refused, although the GPU would have room."""

    def too_much() -> str:
        import tensorflow as tf

        with tf.device("/GPU:0"):
            tf.zeros(2**26)
        try:
            with tf.device("/GPU:0"):
                tf.zeros(2**27)
        except tf.errors.ResourceExhaustedError as error:
            return type(error).__name__
        return "fits"

    monkeypatch.setenv("LOCKSTEP_GPU_MEMORY_MB", "300")
    with Cluster(Topology(devices="gpu-simulated:3"), timeout=60) as cluster:
        assert cluster.run(too_much)["local:0"].value == "ResourceExhaustedError"


@pytest.mark.usefixtures("two")
def test_what_does_not_fit_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three parts of 512 MB in 992 MB waited until the time limit."""
    monkeypatch.setenv("LOCKSTEP_GPU_MEMORY_MB", "512")
    with (
        Cluster(Topology(devices="gpu-simulated:3"), timeout=60) as cluster,
        pytest.raises(HardwareMissing, match=r"has 992 MB, and 3 logical devices of 512 MB .* set .* to 330 or less"),
    ):
        cluster.run(_product)


@pytest.mark.usefixtures("two")
def test_servers_expose_what_their_task_was_given() -> None:
    """A worker's server has its one GPU, a parameter server none, although every process sees two."""

    def exposed() -> list[str]:
        import tensorflow as tf

        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        tf.distribute.ParameterServerStrategy(resolver)
        return [device.name for device in tf.config.list_logical_devices("GPU")]

    on_gpus = Topology(chief=1, worker=2, ps=1, devices={"worker": "gpu-simulated:1"})
    result = result_of(Cluster(on_gpus, timeout=60), exposed)
    names = [f"/job:worker/replica:0/task:{index}/device:GPU:0" for index in range(2)]
    assert sorted(result["chief:0"].value) == names
    assert [result[task].devices[0][:5] for task in ("worker:0", "worker:1", "ps:0")] == ["GPU 0", "GPU 1", "cpu:1"]
    # On the CPU of a machine with GPUs nobody has one.
    with Cluster(Topology(chief=1, worker=2, ps=1), timeout=60, env=variables()) as cluster:
        assert cluster.run(exposed)["chief:0"].value == []


@pytest.mark.usefixtures("two")
def test_a_simulated_gpu_is_never_taken_for_a_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where TensorFlow shows simulated ones, `gpu` finds none; and a task that got one nevertheless refuses."""
    for name, value in variables().items():
        monkeypatch.setenv(name, value)
    assert gpus("gpu") == ()
    with Cluster(Topology(devices="gpu:1"), timeout=60) as cluster:
        with pytest.raises(HardwareMissing, match="gpu devices were asked for, and TensorFlow sees none here"):
            cluster.run(_product)
        monkeypatch.setattr("simulator.hardware.leases.gpus", lambda _: gpus("gpu-simulated"))
        with pytest.raises(RunFailed, match="gpu:1 was asked for, and TensorFlow's /physical_device:GPU:0 is 'SIMU"):
            cluster.run(_product)


@pytest.mark.usefixtures("two")
def test_a_hidden_gpu_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """`CUDA_VISIBLE_DEVICES` hides devices from TensorFlow, whatever the driver lists."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    (only,) = gpus("gpu-simulated")
    assert (only.index, only.name) == (0, "SIMULATED GPU 1 (host memory, CPU kernels)")


@pytest.mark.usefixtures("two")
def test_what_it_cannot_compute_is_refused() -> None:
    """XLA has no compiler for it and the CPU no convolution in NCHW: an error, and no result from elsewhere.

    Should this change, scenarios that say `requires(xla=True)` need not be skipped any more.
    """

    def refused() -> dict[str, str]:
        import tensorflow as tf

        def told(compute: Any) -> str:
            try:
                with tf.device("/GPU:0"):
                    compute()
            except (tf.errors.UnimplementedError, tf.errors.InvalidArgumentError) as error:
                return str(error)
            return "computed"

        images, filters = tf.ones((1, 3, 8, 8)), tf.ones((2, 2, 3, 4))
        compiled = tf.function(lambda: tf.ones(4) * 2, jit_compile=True)
        return {
            "xla": told(compiled),
            "nchw": told(lambda: tf.nn.conv2d(images, filters, 1, "VALID", data_format="NCHW")),
        }

    found = result_of(Cluster(Topology(devices="gpu-simulated:1"), timeout=60), refused)["local:0"].value
    assert "Could not find compiler for platform SIMULATED" in found["xla"]
    assert "NHWC" in found["nchw"]


@pytest.mark.parametrize(("count", "told"), [("2", 6.0), ("1", "two replicas stand on one GPU")])
@pytest.mark.usefixtures("two")
def test_nccl_wants_a_device_for_each_replica(count: str, told: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in adds up what replicas on two devices have, and refuses, as NCCL does, two on one."""

    def reduced() -> Any:
        import tensorflow as tf

        strategy = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"], tf.distribute.NcclAllReduce())

        @tf.function
        def total() -> Any:
            def replica() -> Any:
                context = tf.distribute.get_replica_context()
                return context.all_reduce(
                    "SUM", tf.ones(3) * 2.0 ** tf.cast(context.replica_id_in_sync_group, "float32")
                )

            return strategy.run(replica)

        try:
            parts = strategy.experimental_local_results(total())
        except tf.errors.InvalidArgumentError as error:
            return str(error)
        assert all(bool(tf.reduce_all(part == parts[0])) for part in parts)
        return 2 * float(parts[0][0])

    monkeypatch.setenv(COUNT_VARIABLE, count)
    found = result_of(Cluster(Topology(devices="gpu-simulated:2"), timeout=60), reduced)["local:0"].value
    assert found == told or str(told) in str(found)


def test_tensorflow_is_asked_once_by_all_processes_of_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the first one is in the session's directory; another environment is another question."""
    asked: list[Any] = []

    def ask(relevant: Any) -> tuple[Any, ...]:
        asked.append(relevant)
        return (detecting.Gpu(0, "GPU 0", 2**30),)

    monkeypatch.setattr(detecting, "_ask", ask)
    monkeypatch.setenv(detecting.ANSWERS_VARIABLE, str(tmp_path / "session"))
    monkeypatch.setenv(detecting.SESSION_VARIABLE, "one")
    for _ in range(2):
        detecting._listed.cache_clear()  # as in another process of pytest-xdist
        assert detecting._listed((("CUDA_VISIBLE_DEVICES", "0"),)) == (detecting.Gpu(0, "GPU 0", 2**30),)
    detecting._listed((("CUDA_VISIBLE_DEVICES", "1"),))
    assert len(asked) == 2
    # What one session has found is not for the next one, in which a GPU may be gone.
    monkeypatch.setenv(detecting.SESSION_VARIABLE, "two")
    detecting._listed.cache_clear()
    detecting._listed((("CUDA_VISIBLE_DEVICES", "0"),))
    assert len(asked) == 3
    detecting._listed.cache_clear()


def test_where_nothing_hints_at_a_gpu_nobody_is_asked(tmp_path: Path) -> None:
    """An import of TensorFlow is seconds, and most machines have neither driver nor plugin."""
    assert not detecting.may_have_gpus({}, tmp_path)
    assert detecting.may_have_gpus({"TF_PLUGGABLE_DEVICE_LIBRARY_PATH": "/lib.so"}, tmp_path)
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    assert detecting.may_have_gpus({}, tmp_path)


@pytest.mark.parametrize(("name", "text"), [(COUNT_VARIABLE, "0"), (COUNT_VARIABLE, "65"), (MEMORY_VARIABLE, "1G")])
def test_a_count_that_is_none_is_refused(name: str, text: str) -> None:
    """Before anything is built."""
    with pytest.raises(UsageError, match=f"{name}='{text}' is not a whole number from 1 to"):
        variables({name: text})


def test_without_a_compiler_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is what a skip shows."""
    monkeypatch.setenv(BUILDS_VARIABLE, str(tmp_path))
    monkeypatch.setattr(building, "_COMPILER", "no-such-compiler")
    monkeypatch.setattr(building, "_COPIES_NOTHING", "none")
    with pytest.raises(NotBuilt, match="the simulated GPU cannot be built here: there is no no-such-compiler; install"):
        building.library.__wrapped__()
    monkeypatch.setattr(building, "_COMPILER", "false")
    with pytest.raises(NotBuilt, match=r"the compiler refuses \(exit code 1\)"):
        building.library.__wrapped__()
    assert not list(tmp_path.rglob("*.so"))


def test_a_tensorflow_that_copies_nothing_between_them_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is built; others are not, whatever their numbers begin with."""
    installed = metadata.distribution("tensorflow")
    for version, refused in (("2.17.1", True), ("2.17.0", True), ("2.18.0", False), ("2.170.0", False)):
        monkeypatch.setattr(type(installed), "version", version)
        assert ("stream cannot wait for itself" in building.why_not()) == refused


def test_environments_with_the_same_tensorflow_have_one_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever its headers lie; where it is not noted what they are, each place has its own."""
    places = [Path("/one/include"), Path("/other/include")]
    assert len({building._digest(place, []) for place in places}) == 1
    monkeypatch.setattr(building, "_wheel", lambda: "")
    assert len({building._digest(place, []) for place in places}) == 2


def test_the_installed_tensorflow_is_meant_also_in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m pytest` in TensorFlow's sources has them before what is installed, and they have no headers."""
    installed = building._tensorflow()
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert building._tensorflow() == installed
