"""Training steps where gradients are taken, the loss that a step returns, and what a user sees of Lockstep's frames."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest

from simulator import Cluster, Topology
from simulator.agent.steps.patches import loss_of
from simulator.agent.tracebacks import without_own
from simulator.journal.startup_lines import StartupLines

# Two networks and two optimizers in each of five steps of one function, called four times, with evaluations between;
# then two steps whose function is called by another one, and three eager ones.
PROGRAM = """
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    one, other = tf.Variable(1.0), tf.Variable(1.0)

def replica_step():
    with tf.GradientTape() as first, tf.GradientTape() as second:
        loss = (one * other - 2.0) ** 2
    one.assign_sub(0.01 * first.gradient(loss, one))
    other.assign_sub(0.01 * second.gradient(loss, other))
    return loss

@tf.function
def several():
    loss = 0.0
    for _ in tf.range(5):
        loss = strategy.reduce("MEAN", strategy.run(replica_step), axis=None)
    return loss

@tf.function
def evaluate():
    return one * other

inner = tf.function(lambda: strategy.run(replica_step))

@tf.function
def outer():
    inner()
    inner()

evaluate()
for _ in range(4):
    several(), evaluate()
outer()
for _ in range(3):
    strategy.run(replica_step)
print("seven", float(several()))

@tf.function
def wrong():
    raise KeyError("mine")

wrong()
"""


def test_a_step_is_where_a_gradient_is_taken(tmp_path: Path) -> None:
    """Each turn of a loop counts, each call of an inner function too; evaluations and a second network do not."""
    (tmp_path / "program.py").write_text(PROGRAM)
    with Cluster(Topology(devices="cpu:2"), preload=(), timeout=60) as cluster:
        with pytest.raises(Exception, match="KeyError") as caught:
            cluster.run_command([sys.executable, str(tmp_path / "program.py")])
        failed: Any = caught.value
        task = failed.result["local:0"]
    assert (task.steps, task.counted_by) == (4 * 5 + 2 + 3 + 5, "gradients taken in the program's calls")
    assert task.loss == pytest.approx(float(task.log.partition("seven ")[2].split()[0]))
    frames = [line for line in task.log.splitlines() if line.startswith("  File ")]
    assert frames
    assert not [line for line in frames if "simulator" in line]


@pytest.mark.parametrize(
    ("returned", "loss"),
    [
        (np.float32(0.5), 0.5),
        (np.array(2.0), 2.0),
        ({"loss": 0.25, "accuracy": 1.0}, 0.25),
        ((np.float64(3.0), "logits"), 3.0),
        (np.ones(2), None),
        (np.array(3), None),
        (7, None),
        (True, None),
        (None, None),
        ({}, None),
        ((), None),
        ("text", None),
    ],
)
def test_only_a_single_number_is_a_loss(returned: object, loss: float | None) -> None:
    """A count, a vector or a text is none."""
    assert loss_of(returned) == loss


def _raised(code: str) -> TracebackType | None:
    """The frames of a program `own.py` that calls `theirs.py` that calls ..., as written."""
    namespace: dict[str, Any] = {}
    for number, name in enumerate(code.split()):
        body = f"f{number + 1}()" if number + 1 < len(code.split()) else "raise ValueError(0)"
        exec(compile(f"def f{number}(): {body}", f"/{name}/file.py", "exec"), namespace)
    with pytest.raises(ValueError, match="0") as caught:
        namespace["f0"]()
    assert caught.tb.tb_next is not None
    return caught.tb.tb_next


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("theirs own theirs", "theirs theirs"),
        ("own own theirs own tensorflow", "theirs tensorflow"),
        ("theirs own", "theirs own"),  # what our code raises is ours
        ("own", "own"),
    ],
)
def test_own_frames_are_left_out_unless_they_raise(code: str, shown: str) -> None:
    """A traceback shows whose mistake it is."""
    trace = without_own(_raised(code), ["/own/"])
    files = []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename.split("/")[1])
        trace = trace.tb_next
    assert " ".join(files) == shown


@pytest.mark.parametrize(("raises", "shown"), [("raise", ["theirs"]), ("raise KeyError", ["theirs", "own"])])
def test_an_own_frame_that_only_passes_on_is_left_out(raises: str, shown: list[str]) -> None:
    """Also at the end, as where Keras has left out its own frames below."""
    namespace: dict[str, Any] = {}
    own = f"def own():\n try: missing\n except NameError: {raises}"
    for name, body in {"own": own, "theirs": "def theirs(): own()"}.items():
        exec(compile(body, f"/{name}/file.py", "exec"), namespace)
    with pytest.raises((NameError, KeyError)) as caught:
        namespace["theirs"]()
    frames: list[TracebackType] = []
    trace = caught.tb.tb_next
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    last = frames[-1].tb_frame
    frames[-2].tb_next = TracebackType(None, last, last.f_lasti, last.f_lineno)  # as `tf_keras` makes it
    left = without_own(frames[0], ["/own/"])
    names = []
    while left is not None:
        names.append(left.tb_frame.f_code.co_name)
        left = left.tb_next
    assert names == shown


@pytest.mark.parametrize(("own", "shown"), [
    ("def own(original): original('x')", "theirs"),
    ("def own(original): return original('x', base=0)", "theirs"),
    ("def own(called): called('x')", "theirs own"),
    ("def own(original): original.missing", "theirs own"),
])  # fmt: skip
def test_an_own_frame_that_called_what_it_replaces_is_left_out(own: str, shown: str) -> None:
    """At the end there is none of the library's, which leaves out its own; what fails in our code is shown."""
    namespace: dict[str, Any] = {}
    exec(compile(own, "/own/file.py", "exec"), namespace)
    exec(compile("def theirs(): own(int)", "/theirs/file.py", "exec"), namespace)
    with pytest.raises((ValueError, TypeError, AttributeError)) as caught:
        namespace["theirs"]()
    left, names = without_own(caught.tb.tb_next, ["/own/"]), []
    while left is not None:
        names.append(left.tb_frame.f_code.co_name)
        left = left.tb_next
    assert " ".join(names) == shown


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("2026-01-31 12:00:00.000000: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.", True),
        ("I0000 00:00:1795359898.303768    1170 cudart_stub.cc:31] Could not find cuda drivers.", True),
        ("E0000 00:00:1795359900.353794    1170 cuda_platform.cc:52] failed call to cuInit: INTERNAL", True),
        ("WARNING: All log messages before absl::InitializeLog() is called are written to STDERR", True),
        ("To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow", True),
        ("W0000 00:00:1795359900.35    1170 dataset.cc:997] Input of GeneratorDatasetOp::Dataset will not be", True),
        ("W0000 00:00:1795359900.353794    1170 server.cc:52] the peer has gone", False),
        ("2026-01-31 12:00:00.000000: E tensorflow/core/x.cc:153] a collective has failed", False),
        ("F0000 00:00:1795359900.353794    1170 cuda_platform.cc:52] Check failed", False),
        ("WARNING: my own", False),
        ("loss 0.5", False),
    ],
)
def test_only_what_says_nothing_is_hidden(line: str, hidden: bool) -> None:
    """Information, and warnings of a machine without GPU; warnings and errors of a training are shown."""
    assert StartupLines().hides(line) is hidden


_SESSION = """I0000 00:00:1.489637   17054 eager_service_impl.cc:355] SessionOptions: goo.gle/debugonly
device_count {
  key: "CPU"
  value: 1
}
allow_soft_placement: true
experimental {
  collective_group_leader: "/job:ps/replica:0/task:0"
}

loss: 0.5
I0000 00:00:1.489637   17054 coordination_service.cc:355] These have not joined:
/job:worker/replica:0/task:1
/job:worker/replica:0/task:1
loss {
W0000 00:00:1.35   1170 server.cc:52] the peer has gone
device_count {"""


def test_what_belongs_to_a_hidden_line_is_hidden_with_it() -> None:
    """The options of a session up to the empty line, and names of tasks; what looks so elsewhere is the program's."""
    startup = StartupLines()
    shown = [line for line in _SESSION.splitlines() if not startup.hides(line)]
    warning = "W0000 00:00:1.35   1170 server.cc:52] the peer has gone"
    assert shown == ["loss: 0.5", "loss {", warning, "device_count {"]
