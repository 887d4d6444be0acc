"""The rehearsal for a TPU: what it refuses, with the line, and that it is never taken for a TPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from harness import MissingHardware, strategy_case, verify
from harness.evidence.counters import DevicePlacement
from harness.evidence.trace import RunTrace
from harness.judging.laws import Case, all_laws
from harness.judging.tolerance import ExactTolerance
from harness.recording.tpu_rehearsal import TpuRefused, tpu_rehearsal
from harness.report import Cell, Matrix
from harness.running.observe import check_hardware
from harness.subject.devices import hardware_of, ran_on
from harness.subject.strategies.tpu import REHEARSED
from simulator import Cluster, Topology
from tests.harness._programs import exact
from tests.harness._traces import client, step

_LAW = next(law for law in all_laws() if law.id == "placed_on_devices")
_TPU = "TPU 'local' (2 cores)"


def _masked(x: Any) -> Any:
    import tensorflow as tf

    return tf.boolean_mask(x, x[:, 0] > 0)  # line: dynamic


def _ranged(x: Any) -> Any:
    import tensorflow as tf

    return tf.range(tf.cast(tf.reduce_sum(x), tf.int32))  # line: values


def _on_host(x: Any) -> Any:
    import tensorflow as tf

    return tf.py_function(lambda value: value, [x], tf.float32)  # line: host


def _on_host_in_loop(x: Any) -> Any:
    import tensorflow as tf

    def body(number: Any, total: Any) -> Any:
        tf.print(total)  # line: loop
        return number + 1, total + 1.0

    return tf.while_loop(lambda number, _: number < 3, body, (0, tf.reduce_sum(x)))[1]


def _taken(x: Any) -> Any:
    """Operations whose shapes look as if they were not known, and are."""
    import tensorflow as tf

    rows = tf.map_fn(lambda row: row * 2.0, x)
    several = tf.while_loop(lambda n, _: n < 3, lambda n, y: (n + 1, y * 1.5), (0, rows))[1]
    with tf.GradientTape() as tape:
        tape.watch(several)
        scaled = tf.reduce_mean(several / tf.cast(tf.shape(several)[0], tf.float32) + tf.ones(2))
    return tf.where(x > 0, tape.gradient(scaled, several), 0.0) + tf.reshape(x, [tf.shape(x)[0], -1])


def _run_all() -> dict[str, str]:
    """What a rehearsal says of each of these steps, and of one that is given batches of any size."""
    import tensorflow as tf

    strategy = tf.distribute.OneDeviceStrategy("/device:CPU:0")

    def said(signature: Any, step: Callable[[Any], Any]) -> str:
        train_step = tf.function(lambda x: strategy.run(step, args=(x,)), input_signature=signature)  # line: size
        try:
            with tpu_rehearsal(strategy) as rehearsal:
                train_step(tf.constant([[1.0, 2.0], [-3.0, 4.0]]))
        except TpuRefused as refusal:
            return str(refusal)
        return f"{rehearsal.traced} compiled"

    steps = (_masked, _ranged, _on_host, _on_host_in_loop, _taken)
    found = {step.__name__: said([tf.TensorSpec([2, 2])], step) for step in steps}
    found["any size"] = said([tf.TensorSpec([None, 2])], _taken)
    try:
        with tpu_rehearsal(strategy):
            strategy.scope()
    except TpuRefused as refusal:
        found["nothing"] = str(refusal)
    return found


def test_what_a_tpu_would_not_take_is_refused_with_its_line() -> None:
    """Shapes that depend on values, and what runs on the host, also in loops; what has fixed shapes is compiled."""
    with Cluster(Topology(), timeout=120) as cluster:
        found = cluster.run(_run_all)["local:0"].value
    assert found.pop("_taken") == "1 compiled"
    wanted = {
        "_masked": (
            "# line: dynamic makes Where, whose result has the shape (None, 1)",
            "give those that do not count",
        ),
        "_ranged": ("# line: values makes Range, whose result has the shape (None,)",),
        "_on_host": ("# line: host makes EagerPyFunc, which runs on the host: XLA has no kernel for it",),
        "_on_host_in_loop": ("# line: loop makes StringFormat, which runs on the host",),
        "any size": ("# line: size gives a step float32 of the shape (None, 2)", "drop_remainder=True"),
        "nothing": ("the program never called strategy.run",),
    }
    assert found.keys() == wanted.keys()
    for name, texts in wanted.items():
        assert all(text in found[name] for text in texts), found[name]
        assert name == "nothing" or found[name].startswith("test_tpu_rehearsal.py:")


@pytest.mark.full
def test_a_rehearsed_verdict_says_so_everywhere() -> None:
    """Heading, devices, data and matrix; the numbers are those of one device. `exact` leaves out rows, by a mask."""
    from tests.harness._programs import mlp

    verdict = verify(mlp(), "tpu", hardware="tpu-rehearsed")
    assert verdict
    assert "under tpu (REHEARSED, on no TPU): consistent" in verdict.text()
    assert f"  on: local:0 {REHEARSED}" in verdict.text()
    assert verdict.to_json()["rehearsed"] is True
    cell = Cell("row", "tpu", "ok", verdicts=(verdict.to_json(),))
    assert f"1 on {REHEARSED}" in "\n".join(Matrix(cells=[cell]).lines(120))
    with pytest.raises(Exception, match=r"TpuRefused: _programs.py:\d+: .*boolean_mask.* makes Where"):
        verify(exact(), "tpu", hardware="tpu-rehearsed")


@pytest.mark.parametrize(
    ("device", "hardware"),
    [
        ("cpu:2", "cpu"),
        ("cpu", "cpu"),
        ("GPU 0: NVIDIA H100 (compute capability 9.0), TF32 off", "gpu"),
        ("NVIDIA H100 (compute capability 9.0), TF32 off", "gpu"),
        ("GPU 1: SIMULATED GPU 1 (host memory, CPU kernels), TF32 off", "gpu-simulated"),
        (_TPU, "tpu"),
        (REHEARSED, "tpu-rehearsed"),
    ],
)
def test_what_pretends_to_be_a_device_is_never_counted_as_one(device: str, hardware: str) -> None:
    """Each description means one kind of hardware, and `auto` only real ones."""
    assert hardware_of(device) == hardware
    assert [each for each in ("gpu", "gpu-simulated", "tpu", "tpu-rehearsed") if ran_on(device, each)] == [
        each for each in (hardware,) if each != "cpu"
    ]
    assert ran_on(device, "auto") == (hardware in ("gpu", "tpu"))


def test_only_strategy_tpu_computes_on_tpus() -> None:
    """Others would compute on a CPU under the name of a TPU; a rehearsal needs no TPU."""
    case = strategy_case("tpu", "tpu-rehearsed")
    check_hardware(case)
    assert (case.accelerator, case.computes_apart, case.needs) == ("tpu-rehearsed", True, None)
    assert strategy_case("tpu").accelerator == "tpu"
    with pytest.raises(MissingHardware, match="mirrored-2 does not compute on TPUs; strategy tpu does"):
        check_hardware(strategy_case("mirrored-2", "tpu-rehearsed"))


def _judged(devices: tuple[str, ...], placement: DevicePlacement | None) -> str:
    traced = client(step(1))
    header = msgspec.structs.replace(traced.header, strategy="tpu", devices=devices)
    counters = msgspec.structs.replace(traced.counters, placement=placement)
    run = RunTrace((msgspec.structs.replace(traced, header=header, counters=counters),))
    case = Case(run, run, ExactTolerance())
    assert _LAW.concerns(case)
    return _LAW.judge(case).status


def test_what_did_not_stand_on_the_tpu_is_found() -> None:
    """Replicas and variables are asked for as on GPUs, but not memory, which nobody counts; no rehearsal is judged."""
    right = DevicePlacement(("TPU:0", "TPU:1"), ("CPU:0", "TPU:0", "TPU:1"), {"w": ("TPU:0", "TPU:1")}, {})
    judged = functools.partial(_judged, (_TPU,))
    assert judged(right) == "held"
    assert judged(msgspec.structs.replace(right, replicas=("CPU:0", "TPU:1"))) == "broken"
    assert judged(msgspec.structs.replace(right, variables={"w": ("CPU:0",)})) == "broken"
    assert _judged((REHEARSED,), None) == "not_judged"
