"""Unmodified programs as tasks: their environment, how they end, and how their steps are counted."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import simulator
from simulator import RunResult, Topology, UsageError
from simulator.journal import read_journal
from simulator.launch.programs import last_exception
from simulator.run.task import Task
from tests._ended import has_ended
from tests.simulator._only_run import bare, failure_of_command, result_of_command
from tests.simulator._wire import eventually

ROOT = Path(__file__).parents[2]
Program = Callable[[str], list[str]]

# Keras 2 as far as the counting sees it: a list of callbacks that `fit` talks to.
FAKE_CALLBACKS = """
class CallbackList:
    def __init__(self, asynchronous=False, steps=None):
        class strategy: _should_use_with_coordinator = asynchronous
        class model: distribute_strategy = strategy
        self.model, self.params = model, {"steps": steps}
    def on_train_begin(self, logs=None): pass
    def on_epoch_begin(self, epoch, logs=None): pass
    def on_train_batch_end(self, batch, logs=None): pass
    def on_epoch_end(self, epoch, logs=None): pass

def fit(epochs, batches, **options):
    callbacks = CallbackList(**options)
    callbacks.on_train_begin()
    for epoch in range(epochs):
        callbacks.on_epoch_begin(epoch)
        for batch in batches:
            callbacks.on_train_batch_end(batch, logs={})
        callbacks.on_epoch_end(epoch, logs={})
"""
# TensorFlow as far as the counting sees it.
FAKE_FUNCTIONS = """
class context:
    executing_eagerly = staticmethod(lambda: True)
class Function:
    def __init__(self, python_function): self.python_function = python_function
    def __call__(self, *args): return self.python_function(*args)
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Writes a program and returns the command that runs it."""

    def write(code: str) -> list[str]:
        (tmp_path / "program.py").write_text(code)
        return [sys.executable, str(tmp_path / "program.py")]

    return write


@pytest.fixture
def fakes(tmp_path: Path) -> dict[str, str]:
    """Stand-ins for TensorFlow and tf_keras, and the environment in which programs import those."""
    for module, code in {
        "tf_keras.src.callbacks": FAKE_CALLBACKS,
        "tensorflow.python.eager.polymorphic_function.polymorphic_function": FAKE_FUNCTIONS,
    }.items():
        *packages, name = module.split(".")
        folder = tmp_path / "fakes"
        for package in packages:
            folder /= package
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "__init__.py").touch()
        (folder / f"{name}.py").write_text(code)
    return {"PYTHONPATH": str(tmp_path / "fakes")}


def _values(result: RunResult) -> dict[str, Any]:
    return {name: json.loads(task.log) for name, task in result.items()}


def test_a_program_that_closes_all_descriptors_is_still_counted(program: Program, tmp_path: Path) -> None:
    """It connects again; a file of the program that has got the number of the connection is left alone."""
    code = (
        "import os, simulator\n"
        "simulator.step()\n"
        "os.closerange(3, 256)\n"
        f"files = [open({str(tmp_path)!r} + f'/{{number}}', 'wb') for number in range(20)]\n"
        "for _ in range(2): simulator.step()\n"
    )
    result = result_of_command(bare(Topology(worker=1), out=tmp_path / "out"), program(code))
    assert result["worker:0"].steps == 3
    events = list(read_journal(tmp_path / "out" / "0" / "journal.jsonl"))
    assert [event["number"] for event in events if event["event"] == "step"] == [1, 2, 3]
    assert len([event for event in events if event["event"] == "hello"]) == 1  # it is no new process
    assert all((tmp_path / str(number)).read_bytes() == b"" for number in range(20))


def test_each_task_runs_the_command_with_its_own_config(program: Program, tmp_path: Path) -> None:
    """Arguments, working directory and TF_CONFIG arrive; each task leads a process group of its own."""
    command = program(
        "import json, os, sys\n"
        "group = os.getpgrp() == os.getpid() == os.getsid(0)\n"
        "print(json.dumps([sys.argv[1:], os.getcwd(), group, json.loads(os.environ['TF_CONFIG'])['task']]))"
    )
    result = result_of_command(bare(Topology(chief=1, worker=2)), [*command, "--rate", "0.1"], cwd=tmp_path)
    assert [task.exit for task in result.values()] == [0, 0, 0]
    assert all(value[:3] == [["--rate", "0.1"], str(tmp_path), True] for value in _values(result).values())
    assert {name: value[3] for name, value in _values(result).items()} == {
        "chief:0": {"type": "chief", "index": 0},
        "worker:0": {"type": "worker", "index": 0},
        "worker:1": {"type": "worker", "index": 1},
    }


def test_any_program_will_do() -> None:
    """A shell script is a program; its steps are not known."""
    result = result_of_command(bare(Topology(worker=1)), ["sh", "-c", "echo here; exec true"])
    assert (result["worker:0"].log, result["worker:0"].steps, result["worker:0"].counted_by) == ("here\n", 0, None)


def test_the_first_crash_is_the_root_cause(program: Program) -> None:
    """The message has the exit code and the exception; the log is at hand; the peer is stopped."""
    command = program(
        "import json, os, time\n"
        "if json.loads(os.environ['TF_CONFIG'])['task']['index'] == 1: raise ValueError('shard 1 is empty')\n"
        "time.sleep(60)"
    )
    failure = failure_of_command(bare(Topology(worker=2)), command)
    assert failure.root_cause.task == "worker:1"
    assert failure.root_cause.message == "ended with exit code 1: ValueError: shard 1 is empty"
    assert "Traceback" in str(failure)
    assert failure.result["worker:0"].stopped


@pytest.mark.parametrize(("code", "exits"), [("import os; os._exit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9)])
def test_any_exit_but_zero_fails_the_job(program: Program, code: str, exits: int) -> None:
    """Exit codes and signals alike."""
    assert failure_of_command(bare(Topology(worker=1)), program(code)).result["worker:0"].exit == exits


def test_a_hang_fails_with_stacks(program: Program) -> None:
    """The Python stacks of a program that waits for ever are part of the failure."""
    command = program("import threading; threading.Event().wait()")
    failure = failure_of_command(bare(Topology(worker=1), timeout=1.0), command)
    assert failure.root_cause.kind == "Hang"
    assert "program.py" in failure.stacks["worker:0"]


def test_a_program_that_does_not_answer_the_signal_is_left_alone() -> None:
    """A hung program that is not Python is not killed by the question for its stacks, and is then stopped."""
    failure = failure_of_command(bare(Topology(worker=1), timeout=0.5), ["sleep", "60"])
    assert failure.root_cause.kind == "Hang"
    assert failure.result["worker:0"].exit == -15


def test_with_ps_tasks_the_chief_decides_and_servers_are_stopped(program: Program) -> None:
    """Servers that wait for ever, as in `server.join()`, do not keep the job from ending well."""
    command = program(
        "import json, os, threading\n"
        "if json.loads(os.environ['TF_CONFIG'])['task']['type'] in ('worker', 'ps'): threading.Event().wait()"
    )
    result = result_of_command(bare(Topology(chief=1, worker=2, ps=1)), command)
    assert result["chief:0"].exit == 0
    assert all(result[name].stopped for name in ("worker:0", "worker:1", "ps:0"))


def test_a_server_that_crashes_fails_the_job(program: Program) -> None:
    """Only the wait for ever is forgiven."""
    command = program(
        "import json, os, threading\n"
        "os._exit(3) if json.loads(os.environ['TF_CONFIG'])['task']['type'] == 'ps' else threading.Event().wait()"
    )
    assert failure_of_command(bare(Topology(chief=1, worker=1, ps=1)), command).root_cause.task == "ps:0"


def test_a_server_that_dies_slowly_has_crashed_all_the_same(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others notice the end of a large process before it has gone, and may be done by then: nobody stops it before."""
    go = tmp_path / "go"
    command = program(
        "import json, os, pathlib, sys, threading\n"
        "chief = json.loads(os.environ['TF_CONFIG'])['task']['type'] == 'chief'\n"
        "while not (chief and pathlib.Path(sys.argv[1]).exists()): threading.Event().wait(0.01)"
    )
    at_once = Task.send_signal
    timers = []

    def slowly(task: Task, number: int) -> None:
        timers.append(threading.Timer(0.5, at_once, (task, number)))
        timers[-1].start()

    monkeypatch.setattr(Task, "send_signal", slowly)
    with bare(Topology(chief=1, worker=1, ps=1)) as cluster:
        cluster.expect("ps:0", exit=-9)
        with cluster.start_command([*command, str(go)]) as run:
            cluster.task("ps:0").kill()
            go.touch()
            result = run.join()
    assert result["ps:0"].exit == -9
    assert not result["ps:0"].stopped
    timers[0].join()


def test_an_evaluator_is_stopped_after_training(program: Program) -> None:
    """It has a while for the last checkpoint; one that ends by itself is not waited for longer."""
    command = program(
        "import json, os, threading\n"
        "if json.loads(os.environ['TF_CONFIG'])['task']['type'] == 'evaluator': threading.Event().wait(1); os._exit(0)"
    )
    result = result_of_command(bare(Topology(worker=1, evaluator=1)), command)
    assert (result["evaluator:0"].exit, result["evaluator:0"].stopped) == (0, False)


def test_what_a_program_leaves_behind_is_killed(program: Program, tmp_path: Path) -> None:
    """A child in the task's group does not outlive the run."""
    command = program(
        "import pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        f"pathlib.Path({str(tmp_path / 'child')!r}).write_text(str(child.pid))"
    )
    result_of_command(bare(Topology(worker=1)), command)
    child = int((tmp_path / "child").read_text())
    assert has_ended(child)


def test_a_restarted_program_finds_its_port_again(program: Program) -> None:
    """After a crash the job runs again with the same TF_CONFIG."""
    command = program(
        "import json, os, pathlib\n"
        "print(os.environ['TF_CONFIG'])\n"
        "os._exit(5 if json.loads(os.environ['LOCKSTEP_AGENT'])['incarnation'] == 0 else 0)"
    )
    result = result_of_command(bare(Topology(worker=2), restarts=1), command)
    for task in result.values():
        first, mark, second = task.log.splitlines()
        assert first == second
        assert "starts again, incarnation 1" in mark
        assert [each.exit for each in task.incarnations] in ([5, 0], [-9, 0], [-15, 0])


def test_explicit_steps_are_announced_and_stop_at_gates(program: Program) -> None:
    """`simulator.step()` counts, and a gate holds the program right after its step."""
    command = program("import simulator\nfor number in (1, 2, 3):\n    simulator.step()\n    print(number)")
    with bare(Topology(worker=1)) as cluster:
        cluster.set_gate("worker:0", "step:2")
        with cluster.start_command(command) as run:
            assert run.wait_gate("worker:0", "step:2")
            assert cluster.task("worker:0").log == "1\n"
            run.open_gate("worker:0")
            result = run.join()
    assert (result["worker:0"].steps, result["worker:0"].counted_by) == (3, "simulator.step()")


def test_step_outside_of_lockstep_does_nothing() -> None:
    """A program with `simulator.step()` runs as before without Lockstep."""
    simulator.step()


@pytest.mark.parametrize(
    ("call", "steps", "way"),
    [
        ("fit(2, range(4))", 8, "Keras fit"),
        ("fit(2, [2, 5, 8], steps=8)", 16, "Keras fit"),  # three steps per execution
        ("fit(2, range(4), asynchronous=True)", 2, "Keras fit, one step for each epoch"),
    ],
)
def test_fit_is_counted(program: Program, fakes: dict[str, str], call: str, steps: int, way: str) -> None:
    """Each batch is a step, those within one execution too; under parameter servers each epoch."""
    with bare(Topology(worker=1), env=fakes) as cluster:
        result = cluster.run_command(program(f"from tf_keras.src.callbacks import fit\n{call}"))
    assert (result["worker:0"].steps, result["worker:0"].counted_by) == (steps, way)


def test_outermost_calls_of_functions_are_counted(program: Program, fakes: dict[str, str]) -> None:
    """A call inside of a call is not a step, and those of a library are none."""
    command = program(
        "from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function\n"
        "inner = Function(lambda: 1)\n"
        "outer = Function(lambda: inner() + inner())\n"
        "def of_keras(): pass\n"
        "of_keras.__module__ = 'keras.src.optimizers'\n"
        "for _ in range(3): outer(), Function(of_keras)()"
    )
    result = result_of_command(bare(Topology(worker=1), env=fakes), command)
    assert (result["worker:0"].steps, result["worker:0"].counted_by) == (3, "outermost calls of tf.functions")


MIXED = (
    "import simulator\n"
    "from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function\n"
    "from tf_keras.src.callbacks import fit\n"
    "Function(lambda: 1)()\n"
    "fit(1, range(4))\n"
    "Function(lambda: 1)()\n"
    "simulator.step()\n"
    "fit(1, range(4))\n"
)


@pytest.mark.parametrize(
    ("ways", "steps", "way"),
    [
        ("auto", 1, "simulator.step()"),
        ("fit", 8, "Keras fit"),
        ("function", 2, "outermost calls of tf.functions"),
        ("explicit", 1, "simulator.step()"),
    ],
)
def test_one_way_counts(
    program: Program, fakes: dict[str, str], tmp_path: Path, ways: str, steps: int, way: str
) -> None:
    """The most telling way counts and puts an end to the others, and the journal says each change."""
    result = result_of_command(bare(Topology(worker=1), env=fakes, out=tmp_path / "out"), program(MIXED), steps=ways)
    assert (result["worker:0"].steps, result["worker:0"].counted_by) == (steps, way)
    journal = read_journal(tmp_path / "out" / "0" / "journal.jsonl")
    changes = [event["by"] for event in journal if event["event"] == "counting"]
    assert changes == (["outermost calls of tf.functions", "Keras fit", way] if ways == "auto" else [way])


def test_forks_and_helper_processes_do_not_count(program: Program, tmp_path: Path) -> None:
    """The process that spoke first speaks for the task; its children announce nothing."""
    helper = tmp_path / "helper.py"
    helper.write_text("import simulator\nfor _ in range(5): simulator.step()")
    command = program(
        "import os, simulator, subprocess, sys\n"
        "simulator.step()\n"
        f"subprocess.run([sys.executable, {str(helper)!r}], check=True)\n"
        "child = os.fork()\n"
        "simulator.step()\n"
        "if child: os.waitpid(child, 0)\n"
        "else: os._exit(0)"
    )
    assert result_of_command(bare(Topology(worker=1)), command)["worker:0"].steps == 2


def test_a_shell_script_may_call_the_program(program: Program) -> None:
    """Steps are counted although the task's own process is a shell; a second program takes over from the first."""
    code = "import simulator\nsimulator.step()"
    python = " ".join(program(code))
    result = result_of_command(bare(Topology(worker=1)), ["sh", "-c", f"{python} && {python}; echo $?"])
    assert result["worker:0"].log == "0\n"
    assert result["worker:0"].counted_by == "simulator.step()"


def test_a_sitecustomize_of_the_user_still_runs(program: Program, tmp_path: Path) -> None:
    """The injected one hands over to the next on the path."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import builtins; builtins.from_users_site = 'yes'")
    command = program("print(from_users_site, __import__('sitecustomize').__file__)")
    with bare(Topology(worker=1), env={"PYTHONPATH": str(folder)}) as cluster:
        assert cluster.run_command(command)["worker:0"].log == f"yes {folder / 'sitecustomize.py'}\n"


def test_the_injection_is_light(program: Program) -> None:
    """A program that imports nothing of Lockstep's or TensorFlow's does not have them imported."""
    command = program(
        "import sys; print(sorted({'simulator', 'msgspec', 'dill', 'tensorflow', 'numpy'} & set(sys.modules)))"
    )
    assert result_of_command(bare(Topology(worker=1)), command)["worker:0"].log == "[]\n"


def test_a_module_of_the_users_own_with_the_same_name_costs_nothing(
    program: Program, fakes: dict[str, str], tmp_path: Path
) -> None:
    """The program finds its own `simulator`, and its steps are counted all the same."""
    (tmp_path / "simulator.py").write_text("mine = True")
    command = program("import simulator\nfrom tf_keras.src.callbacks import fit\nfit(1, [0])\nprint(simulator.mine)")
    task = result_of_command(bare(Topology(worker=1), env=fakes), command)["worker:0"]
    assert (task.exit, task.steps, task.counted_by, task.log) == (0, 1, "Keras fit", "True\n")


@pytest.mark.parametrize(
    ("command", "options", "text"),
    [
        ([], {}, "is not a command"),
        ("python train.py", {}, "is not a command"),
        (["no-such-program"], {}, "'no-such-program' is not a program"),
        (["./here.py"], {}, "'./here.py' is not a program"),
        (["true"], {"cwd": "/no/such/place"}, "no directory /no/such/place"),
        ([sys.executable, "-u", "gone.py", "--epochs", "1"], {}, "there is no file 'gone.py'"),
        (["true"], {"steps": "epochs"}, "accepted are auto, fit, gradient, function, explicit"),
    ],
)
def test_a_command_without_sense_is_a_usage_error(command: Any, options: dict[str, Any], text: str) -> None:
    """The error comes before anything is started."""
    with bare(Topology(worker=1)) as cluster, pytest.raises(UsageError, match=text):
        cluster.run_command(command, **options)


def test_the_last_exception_of_a_log() -> None:
    """It is the line after the last traceback, with or without a message; no traceback, no exception."""
    trace = "Traceback (most recent call last):\n  File x\n"
    assert (
        last_exception(f"{trace}KeyError: 1\nnoise\n{trace}a.b.OutOfRange: no: data\nW0000 x: y")
        == "a.b.OutOfRange: no: data"
    )
    in_graph = (
        f"{trace}a.OutOfRange: Graph execution error:\n\nDetected at node next defined at (most recent call last):\n"
        '  File "/home/me/train.py", line 7, in step\n\nEnd of sequence\n\t [[{{node next}}]]\n'
    )
    assert last_exception(in_graph) == "a.OutOfRange: End of sequence (next, train.py:7)"
    assert last_exception(f"{trace}KeyboardInterrupt\n") == "KeyboardInterrupt"
    cut = f"{trace}ValueError: Attempt to convert a value (PerReplica:{{\n  0: 1.0,\n  1: 2.0\n}}) to a Tensor.\nmore\n"
    assert last_exception(cut) == "ValueError: Attempt to convert a value (PerReplica:{ 0: 1.0, 1: 2.0 }) to a Tensor."
    assert (
        last_exception(f"{trace}a.Gone: Graph execution error:\n\nno answer\n")
        == "a.Gone: Graph execution error: no answer"
    )
    wrong = '  File "/home/me/train.py", line 2\n    def f(:\n          ^\nSyntaxError: invalid syntax\n'
    assert last_exception(f"noise\n{wrong}") == "SyntaxError: invalid syntax (train.py:2)"
    assert last_exception("ValueError: only said\n") is None
    logged = f"--- Logging error ---\n{trace}ValueError: closed\n"
    after = f"Exception ignored in: <function f>\n{trace}TypeError: none\n{logged}"
    assert last_exception(f"{trace}KeyError: 1\n{after}") == "KeyError: 1"
    assert last_exception(after) is None


def test_programs_die_with_their_parent(program: Program, tmp_path: Path) -> None:
    """SIGKILL of the process that runs the cluster leaves no task behind."""
    command = program(
        f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\nimport signal; signal.pause()"
    )
    code = (
        "import os, signal, sys, threading\n"
        "from pathlib import Path\n"
        "from simulator import Cluster, Topology\n"
        "with Cluster(Topology(worker=1), preload=()) as cluster, cluster.start_command(sys.argv[2:]) as run:\n"
        "    while not (Path(sys.argv[1]).exists() and Path(sys.argv[1]).read_text()): threading.Event().wait(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "pid"), *command], cwd=ROOT, timeout=30, check=False
    )
    assert done.returncode == -9
    eventually(lambda: has_ended(int((tmp_path / "pid").read_text())), "the task to end")


@pytest.mark.full
def test_both_real_kerases_are_counted(program: Program) -> None:
    """Two epochs of eight batches are 16 steps, also if three are one execution; `evaluate` and `predict` are none."""
    command = program(
        "import keras, tensorflow as tf, tf_keras\n"
        "def train(keras, per_execution):\n"
        "    model = keras.Sequential([keras.layers.Dense(1)])\n"
        "    model.compile('sgd', 'mse', steps_per_execution=per_execution)\n"
        "    x, y = tf.ones((32, 2)), tf.ones((32, 1))\n"
        "    model.fit(x, y, batch_size=4, epochs=2, verbose=0)\n"
        "    model.evaluate(x, y, verbose=0)\n"
        "    model.predict(x, verbose=0)\n"
        "train(tf_keras, 1)\n"
        "train(keras, 3)\n"
    )
    result = result_of_command(bare(Topology(worker=1), timeout=60), command)
    assert (result["worker:0"].steps, result["worker:0"].counted_by) == (32, "Keras fit")


def test_real_functions_are_counted_on_the_devices_asked_for(program: Program) -> None:
    """A method and a `strategy.run` of a tf.function count once each, and the task has its two logical devices."""
    command = program(
        "import tensorflow as tf\n"
        "strategy = tf.distribute.MirroredStrategy()\n"
        "class Model:\n"
        "    @tf.function\n"
        "    def step(self): return helper() + 1\n"
        "@tf.function\n"
        "def helper(): return tf.constant(1)\n"
        "model = Model()\n"
        "for _ in range(3): model.step()\n"
        "strategy.run(helper)\n"
        "tf.map_fn(lambda x: x, tf.range(3))\n"
        "print('replicas', strategy.num_replicas_in_sync)"
    )
    task = result_of_command(bare(Topology(worker=1, devices="cpu:2"), timeout=60), command)["worker:0"]
    assert (task.steps, task.counted_by) == (4, "outermost calls of tf.functions")
    assert "replicas 2" in task.log
