"""Tests of clusters of real processes that do not load TensorFlow, which makes them fast."""

from __future__ import annotations

import io
import json
import os
import tempfile
import threading
from pathlib import Path

import pytest

from simulator import Cluster, RunFailed, Topology, UsageError
from simulator.journal import read_journal
from simulator.run.stream import LogStream
from tests.simulator._faults import own_agent
from tests.simulator._only_run import bare, failure_of_command, result_of

GRPC = "TF_GRPC_DEFAULT_OPTIONS"
INITIAL, MAXIMUM = "grpc.initial_reconnect_backoff_ms", "grpc.max_reconnect_backoff_ms"


def test_every_client_runs_the_closure_and_returns_its_value() -> None:
    """Closures and lambdas reach each task, and each task's value comes back under its name."""
    factor = 3

    def body(offset: int) -> tuple[str, int]:
        task = json.loads(os.environ["TF_CONFIG"])["task"]
        return f"{task['type']}:{task['index']}", factor * offset

    result = result_of(bare(Topology(chief=1, worker=2)), body, 5)
    assert {name: task.value for name, task in result.items()} == {
        name: (name, 15) for name in ("chief:0", "worker:0", "worker:1")
    }
    assert all((task.exit, task.error, task.signal, task.incarnation) == (0, None, None, 0) for task in result.values())


def test_each_run_has_fresh_processes() -> None:
    """Nothing a run leaves in a process is seen by the next one."""
    with bare(Topology(worker=1)) as cluster:
        first, second = (cluster.run(os.getpid)["worker:0"].value for _ in range(2))
    assert first != second


def test_no_two_tasks_draw_the_same_numbers() -> None:
    """Neither from Python's generator nor from NumPy's, though both were there before the tasks were forked."""

    def body() -> tuple[float, float]:
        import random

        import numpy as np

        return random.random(), float(np.random.rand())

    with Cluster(Topology(worker=2), preload=("numpy.random",), timeout=30) as cluster:
        drawn = [task.value for _ in range(2) for task in cluster.run(body).values()]
    assert len({number for pair in drawn for number in pair}) == 8


def test_output_is_captured_in_order_for_each_task() -> None:
    """Output on stdout and stderr of Python and of child processes land in the task's own log."""

    def body() -> None:
        import subprocess
        import sys

        sys.stdout.write("one\n")
        sys.stderr.write("two\n")
        subprocess.run(["echo", "three"], check=True)

    result = result_of(bare(Topology(worker=2)), body)
    assert [task.log for task in result.values()] == ["one\ntwo\nthree\n"] * 2


def test_progress_bars_and_colours_stay_in_their_line(tmp_path: Path) -> None:
    """Of a line that was written over, the last state is shown; the colour of a line is no colour of the next."""
    log, out = tmp_path / "log", io.StringIO()
    log.write_bytes(b"\r10 %\r20 %\r\n\x1b[31mred\n\nplain\r\nlast")
    LogStream([("worker:1", log)], out).close()
    assert out.getvalue().splitlines() == [
        "[worker-1] 20 %",
        "[worker-1] \x1b[31mred\x1b[0m",
        "[worker-1] ",
        "[worker-1] plain",
        "[worker-1] last",
    ]


def test_output_is_streamed_with_the_task_in_front(capfd: pytest.CaptureFixture[str]) -> None:
    """With `stream`, every line appears on stderr behind `[worker-1]`."""
    result_of(bare(Topology(worker=2), stream=True), lambda: os.write(1, b"hello\nunfinished"))
    lines = capfd.readouterr().err.splitlines()
    assert sorted(lines) == ["[worker-0] hello", "[worker-0] unfinished", "[worker-1] hello", "[worker-1] unfinished"]


def test_tasks_see_the_callers_environment_but_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables set after the forkserver started are seen; proxies and a foreign TF_CONFIG are not; `env` is on top."""
    monkeypatch.setenv("LOCKSTEP_TEST", "from the caller")
    monkeypatch.setenv("https_proxy", "localhost:1")
    monkeypatch.setenv("TF_CONFIG", "foreign")

    def body() -> tuple[str | None, ...]:
        return tuple(os.environ.get(name) for name in ("LOCKSTEP_TEST", "https_proxy", "TF_CONFIG", "EXTRA"))

    with bare(Topology(), env={"EXTRA": "1"}) as cluster:
        assert cluster.run(body)["local:0"].value == ("from the caller", None, None, "1")


@pytest.mark.parametrize(
    ("outside", "given", "expected"),
    [
        (None, {}, [f"{INITIAL}=100", f"{MAXIMUM}=100"]),
        ("grpc.a=1", {}, [f"{INITIAL}=100", f"{MAXIMUM}=100", "grpc.a=1"]),
        (f"grpc.a=1,{MAXIMUM}=7", {}, [f"{INITIAL}=100", "grpc.a=1", f"{MAXIMUM}=7"]),
        ("grpc.a=1", {GRPC: f"{INITIAL}=8"}, [f"{MAXIMUM}=100", f"{INITIAL}=8"]),
    ],
)
def test_tasks_reconnect_quickly_unless_the_caller_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, outside: str | None, given: dict[str, str], expected: list[str]
) -> None:
    """Options of gRPC that a caller names are not named twice; the others of Lockstep stay."""
    monkeypatch.delenv(GRPC, raising=False)
    if outside is not None:
        monkeypatch.setenv(GRPC, outside)
    assert result_of(bare(Topology(), env=given), lambda: os.environ[GRPC])["local:0"].value.split(",") == expected


def test_a_value_that_cannot_be_sent_back_is_an_error_that_says_so() -> None:
    """An unpicklable result fails the task with the reason, not with a missing result."""
    with bare(Topology()) as cluster, pytest.raises(RunFailed, match="cannot be sent to the parent"):
        cluster.run(lambda: (number for number in range(1)))


def test_an_argument_that_cannot_be_sent_is_a_usage_error() -> None:
    """What cannot be pickled is refused before any task starts."""
    with bare(Topology()) as cluster, pytest.raises(UsageError, match="create what cannot be pickled inside"):
        cluster.run(len, (number for number in range(1)))


def test_a_cluster_that_was_not_entered_is_a_usage_error() -> None:
    """The message shows the `with` statement."""
    with pytest.raises(UsageError, match="with Cluster"):
        bare(Topology()).run(os.getpid)


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_senseless_timeout_is_a_usage_error(timeout: float) -> None:
    """A timeout is a positive number of seconds."""
    with pytest.raises(UsageError, match="positive number of seconds"):
        Cluster(Topology(), timeout=timeout)


def test_a_kept_run_has_its_journal_and_logs(tmp_path: Path) -> None:
    """With `out`, the journal tells each task's life in order."""
    result_of(bare(Topology(worker=1), out=tmp_path), lambda: None)
    events = [event["event"] for event in read_journal(tmp_path / "0" / "journal.jsonl")]
    assert events == ["journal", "start", "hello", "ready", "result", "exit", "end"]
    assert (tmp_path / "0" / "logs" / "worker-0.log").read_text() == ""


def test_expected_failures_are_demanded() -> None:
    """A failure that was asked for is no failure; one that was asked for and did not come is."""

    def fail() -> None:
        raise ValueError("asked for")

    with bare(Topology(worker=1)) as cluster:
        cluster.expect("worker:0", error="ValueError", match="asked")
        assert cluster.run(fail)["worker:0"].exit == 1
        cluster.expect("worker:0-0", error="ValueError")
        assert cluster.run(fail)["worker:0"].exit == 1
        with pytest.raises(UsageError, match="task=worker:0-1 reaches beyond worker:0"):
            cluster.expect("worker:0-1")
        cluster.expect("worker:0", error="ValueError")
        with pytest.raises(RunFailed, match="was expected and did not come"):
            cluster.run(lambda: None)
        cluster.expect("worker:0", error="KeyError")
        with pytest.raises(RunFailed, match="ValueError: asked for"):
            cluster.run(fail)


def test_steps_are_announced_and_can_be_waited_for() -> None:
    """A started run shows each task's step while it goes on."""

    def body() -> None:
        task = own_agent()
        for number in (1, 2, 3):
            task.step(number)

    with bare(Topology(worker=2)) as cluster, cluster.start(body) as run:
        run.wait_step("worker:1", 2)
        result = run.join()
    assert [task.steps for task in result.values()] == [3, 3]


def test_temporary_files_of_tasks_are_gone_with_the_run(tmp_path: Path) -> None:
    """They are in a directory of the task, which is neither the caller's nor kept, whatever ends the tasks."""

    def leave_one() -> str:
        import tempfile

        with tempfile.NamedTemporaryFile(delete=False) as file:
            return file.name

    with bare(Topology(worker=2), out=tmp_path / "out") as cluster:
        names = [Path(task.value) for task in cluster.run(leave_one).tasks.values()]
        assert names[0].parent != names[1].parent != Path(tempfile.gettempdir())
        assert not names[0].parent.exists()
    assert not list((tmp_path / "out").rglob(names[0].name))


def test_an_earlier_run_in_the_same_place_is_replaced(tmp_path: Path) -> None:
    """Its logs would be taken for those of this run."""
    for workers in (2, 1):
        result_of(bare(Topology(worker=workers), out=tmp_path), int)
    assert sorted(path.name for path in (tmp_path / "0" / "logs").iterdir()) == ["worker-0.log"]


def test_what_is_no_run_is_not_removed(tmp_path: Path) -> None:
    """A folder of the user's that happens to have the run's number keeps what is in it."""
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds what Lockstep has not written \(0\)"):
        bare(Topology(worker=1), out=tmp_path)
    assert (tmp_path / "0" / "thesis.txt").read_text() == "mine"
    assert not (tmp_path / "0" / "journal.jsonl").exists()


def test_the_end_of_a_log_is_shown_in_short_lines(tmp_path: Path) -> None:
    """A program may write all it has into one; what is shown has to fit into a pipe that nobody reads meanwhile."""
    (tmp_path / "worker-0.log").write_text("before\n" + "x" * 300_000 + "\nlast\n")
    failure = failure_of_command(bare(Topology(worker=1)), ["sh", "-c", f"cat {tmp_path / 'worker-0.log'}; exit 7"])
    said = str(failure)
    assert "before" in said
    assert said.endswith("x…\nlast")
    assert len(said) < 1000


def test_who_is_waited_for_less_than_its_timeout_is_told_so() -> None:
    """A run may take 30 s; whoever waits for it for a moment is not told of these."""
    with (
        bare(Topology(worker=1)) as cluster,
        cluster.start(lambda: threading.Event().wait()) as run,
        pytest.raises(RunFailed, match=r"Hang: did not finish within 0\.2 s"),
    ):
        run.join(seconds=0.2)
