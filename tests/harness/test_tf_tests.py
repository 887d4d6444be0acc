"""Tests written for TensorFlow's multi-process runner, under plain pytest: every outcome is told truthfully."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.tf_tests.inside import checkouts, held_ports, main_block, strict_pool, tasks
from harness.tf_tests.inside.messages import STARTED_PROPERTY
from harness.tf_tests.inside.state import STATE
from harness.tf_tests.inside.strict_tests import Answer, expected_tasks, judge
from simulator.hardware.simulated import COUNT_VARIABLE
from tests._ended import has_ended
from tests.harness._hosted import meant, run

_WRONG = Path(__file__).parent / "tf_tests" / "wrong_tests.txt"
_EXAMPLE = Path(__file__).parents[2] / "examples" / "tf_tests"


def _with_tasks(folder: Path) -> set[str]:
    """The tests of which the report says that they have used processes, in a folder where `_run` has been."""
    cases = ET.parse(folder / "out.xml").getroot().iter("testcase")
    return {
        str(case.get("name"))
        for case in cases
        if any(each.get("name") == STARTED_PROPERTY for each in case.iter("property"))
    }


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mapping[str, str], str]:
    """The outcomes of the file of wrong tests, and what was printed."""
    folder = tmp_path_factory.mktemp("wrong")
    shutil.copy(_WRONG, folder / "wrong_test.py")
    return run(folder)


@pytest.mark.full
def test_every_outcome_is_told_truthfully(wrong: tuple[Mapping[str, str], str]) -> None:
    """A task that dies, exits or never starts fails its test, where TensorFlow's runner lets it pass."""
    outcomes = {name: kind for name, kind in wrong[0].items() if name != "test_session"}
    assert outcomes == {name: meant(name) for name in outcomes}, wrong[1]
    assert len(outcomes) == 18


@pytest.mark.full
def test_failures_say_what_and_where(wrong: tuple[Mapping[str, str], str]) -> None:
    """The traceback of the task with its name, the signal, who owes an answer; skips have their reason."""
    said = wrong[1]
    assert "in worker-0:\n" in said
    assert "this worker's" in said
    assert "killed by SIGSEGV" in said
    assert "killed by SIGKILL" in said
    assert "worker-0 exited with exit code 0 before its function had returned" in said
    assert "a reason of its own" in said
    assert "expected to fail, but not like this: " in said


@pytest.mark.full
def test_trouble_of_a_files_own_process_ends_with_the_test(tmp_path: Path) -> None:
    """A crash and a hang each fail one test, with what is known of it; what a module leaves is named and killed."""
    shutil.copy(_WRONG.with_name("troubles.txt"), tmp_path / "troubles_test.py")
    outcomes, said = run(tmp_path, "--tf-test-seconds=20")
    assert {name: kind for name, kind in outcomes.items() if name != "test_session"} == {
        "test_1_dies": "failure",
        "test_2_goes_on": "passed",
        "test_3_hangs": "failure",
        "test_4_leaves_a_task": "passed",
        "test_5_has_a_process_without_the_runner": "passed",
    }, said
    assert "the process of troubles_test.py was killed by SIGSEGV while it ran this test" in said
    begins = r"not over after 20 s; its processes have been killed\nstacks of the process of the file \d+:\n"
    assert re.search(begins + r"(Current t|T)hread \w+ [^\n]*\n(  File [^\n]*\n)*[^\n]*troubles_test.py", said), said
    assert "in _tell_captured" not in said
    assert "in wait_for_ever" in said
    assert "troubles_test.py left processes running, now killed: _Process" in said
    assert has_ended(int((tmp_path / "left").read_text()))
    assert _with_tasks(tmp_path) == {"test_4_leaves_a_task", "test_5_has_a_process_without_the_runner"}


@pytest.mark.full
def test_tests_of_dtensors_runner_run_in_all_clients(tmp_path: Path) -> None:
    """Each in all of them at the same time, configured by its module; one that fails or dies fails its test alone."""
    shutil.copy(_WRONG.with_name("clients.txt"), tmp_path / "clients_test.py")
    outcomes, said = run(tmp_path)
    outcomes = {name: kind for name, kind in outcomes.items() if name != "test_session"}
    assert outcomes == {name: meant(name) for name in outcomes}, said
    assert len(outcomes) == 6
    assert "in worker-1:\n" in said
    assert "in worker-0:\n" not in said
    assert "a reason of a client" in said


@pytest.mark.full
def test_parameter_servers_end_with_the_chief(tmp_path: Path) -> None:
    """At once: nobody waits for servers that serve for ever to end by themselves."""
    shutil.copy(_WRONG.with_name("servers.txt"), tmp_path / "servers_test.py")
    outcomes, said = run(tmp_path)
    outcomes = {name: kind for name, kind in outcomes.items() if name != "test_session"}
    assert outcomes == {name: meant(name) for name in outcomes}, said
    assert len(outcomes) == 1
    assert (tmp_path / "end-of-chief").exists()
    assert "left processes running" not in said


@pytest.mark.full
@pytest.mark.parametrize(("threads", "outcome"), [("2", "failure"), ("", "passed")])
def test_replicas_that_wait_for_each_other_have_threads(
    threads: str, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on two cores, for which TensorFlow has two, as it does if the environment asks for them."""
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", threads)
    shutil.copy(_WRONG.with_name("replicas.txt"), tmp_path / "replicas_test.py")
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])
    try:
        outcomes, said = run(tmp_path, "--tf-test-seconds=30")
    finally:
        os.sched_setaffinity(0, cores)
    assert [kind for name, kind in outcomes.items() if name != "test_session"] == [outcome], said


@pytest.mark.full
def test_tests_that_want_gpus_run_on_simulated_ones(
    simulated_gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the file's process and in tasks, which see those that are theirs; without enough of them a test says so."""
    monkeypatch.setenv(COUNT_VARIABLE, "3")
    shutil.copy(_WRONG.with_name("gpus.txt"), tmp_path / "gpus_test.py")
    outcomes, said = run(tmp_path, "--hardware=gpu-simulated")
    outcomes = {name: kind for name, kind in outcomes.items() if name != "test_session"}
    assert outcomes == {name: meant(name) for name in outcomes}, said
    assert len(outcomes) == 6
    assert "on simulated GPUs (TensorFlow's kernels for the CPU)" in said
    assert "Only 3 of 4 required GPUs are available" in said


@pytest.mark.full
@pytest.mark.parametrize(
    ("chosen", "outcome", "status"),
    [
        ("tasks_compute_on_them or wants_none", "passed", pytest.ExitCode.OK),
        ("one_too_many", "failure", pytest.ExitCode.TESTS_FAILED),
        ("wants_none", "passed", pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_hardware_that_is_required_has_to_be_there_and_be_used(
    chosen: str,
    outcome: str,
    status: pytest.ExitCode,
    simulated_gpu: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A test that wants GPUs has to pass; one that has too few fails, and one that wants none says nothing of them."""
    monkeypatch.setenv(COUNT_VARIABLE, "3")
    shutil.copy(_WRONG.with_name("gpus.txt"), tmp_path / "gpus_test.py")
    outcomes, said = run(tmp_path, "--hardware=gpu-simulated", "--require-hardware", "-k", chosen)
    assert set(outcomes.values()) == {outcome}, said
    assert said.endswith(f"exit code {int(status)}")
    assert ("on such a device, nor has a test of harness.tf_tests passed" in said) == (chosen == "wants_none")
    assert ("Only 3 of 4 required GPUs are available" in said) == (chosen == "one_too_many")


@pytest.mark.full
def test_the_example_passes_also_in_two_processes_of_xdist(tmp_path: Path) -> None:
    """By its `pytest.ini`; the processes of pytest each have a process of the file, and nothing is left running."""
    folder = tmp_path / "example"
    shutil.copytree(_EXAMPLE, folder)
    outcomes, said = run(folder, "-n", "2")
    assert {name: kind for name, kind in outcomes.items() if name != "test_session"} == {
        "test_sum_test_mode_eager_strategy_MultiWorkerMirrored2x1CPU": "passed",
        "test_each_worker_is_one_of_two": "passed",
    }, said
    assert "left processes running" not in said


def test_ports_are_held() -> None:
    """Nobody else can bind a port that a test has picked; a server that asks for SO_REUSEPORT can."""
    number = held_ports.pick()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("", number))
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("", number))


def test_signals_that_a_test_sends_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a task which the test kills is no failure, and one that somebody else kills is."""
    monkeypatch.setattr(os, "kill", os.kill)
    tasks.watch_kill()
    with subprocess.Popen(["sleep", "100"]) as child:
        os.kill(child.pid, signal.SIGTERM)
    assert tasks.sent(child.pid) == {signal.SIGTERM}
    assert tasks.sent(os.getpid()) == set()


@dataclass(eq=False)
class _Process:
    """As one of `multiprocess` that has been started."""

    name: str
    exitcode: int | None = None


def test_a_process_that_has_ended_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pipes with it, of which a file with many tests would have too many; how it ended stays known."""
    monkeypatch.setattr(tasks, "_live", [])
    monkeypatch.setattr(tasks, "_ended", [])
    first, second = _Process("first"), _Process("second")
    gone = weakref.ref(first)
    tasks.started(first)
    assert tasks.left() == [first]
    first.exitcode = -9
    del first
    assert gone() is not None
    tasks.started(second)
    assert gone() is None
    assert tasks.left() == [second]
    assert [tasks.ended_now(), tasks.ended_now()] == [[("first", -9)], []]


def test_an_answer_of_a_pool_is_waited_for() -> None:
    """TensorFlow waits for 120 s; a test has the time of `--tf-test-seconds`. Other threads are as they were."""
    said = threading.Event()

    def recv_with_timeout() -> None:
        said.wait()

    def other() -> None:
        said.wait()

    library = strict_pool.Patient(threading)
    answer, another = library.Thread(target=recv_with_timeout), library.Thread(target=other)
    another.start()
    another.join(timeout=0.01)
    assert another.is_alive()
    answer.start()
    threading.Timer(0.2, said.set).start()
    answer.join(timeout=0.01)
    assert said.is_set()
    assert library.Event is threading.Event


def test_a_file_in_a_checkout_has_the_name_of_its_package(tmp_path: Path) -> None:
    """And its packages' folders, in which helpers are looked for that are not installed."""
    folder = tmp_path / "json" / "tool"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        (each / "__init__.py").touch()
    file, packages = checkouts.find(folder / "some_test.py")
    assert file.name == "json.tool.some_test"
    assert packages == {"json": str(tmp_path / "json"), "json.tool": str(folder)}
    assert checkouts.beside_installed(packages)
    assert checkouts.find(tmp_path / "some_test.py")[1] == {}


def test_a_file_in_a_folder_without_init_has_the_packages_above_it(tmp_path: Path) -> None:
    """As those in `tf_keras/integration_test`, whose module pytest names by the file alone."""
    folder = tmp_path / "json" / "integration_test" / "deeper"
    folder.mkdir(parents=True)
    (tmp_path / "json" / "__init__.py").touch()
    file, packages = checkouts.find(folder / "some_test.py")
    assert file.name == "some_test"
    assert packages == {"json": str(tmp_path / "json")}
    assert checkouts.beside_installed(packages)


@pytest.mark.parametrize("named", ["below_middle.tests.some_test", "some_test"])
def test_a_folder_without_init_in_the_middle_hides_no_package_above_it(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `tensorflow/dtensor`, below which helpers of the checkout are asked for by their whole names, also where the
    folder of the tests has none either.
    """
    folder = tmp_path / "json" / "middle" / "below_middle" / "tests"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent, tmp_path / "json")[named == "some_test" :]:
        (each / "__init__.py").touch()
    (folder / "helper.py").write_text("WORD = 'found'\n")
    (folder / "some_test.py").write_text("from json.middle.below_middle.tests.helper import WORD\n")
    file, packages = checkouts.find(folder / "some_test.py")
    assert file.name == named
    assert packages == {"json": str(tmp_path / "json")}
    monkeypatch.setattr(STATE, "packages", packages)
    monkeypatch.setattr(STATE, "file", file)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    checkouts.install()
    try:
        assert checkouts.load(file).WORD == "found"
    finally:
        for name in [each for each in sys.modules if each.startswith(("below_middle", "json.middle", named))]:
            del sys.modules[name]


@pytest.mark.full
def test_classes_run_by_name_and_temporary_files_are_where_they_belong(tmp_path: Path) -> None:
    """As under TensorFlow's `main`; what is left there goes with the process of the file."""
    (tmp_path / "order_test.py").write_text(
        "import os, tempfile, unittest\n"
        "RAN = []\n"
        "class Second(unittest.TestCase):\n"
        "    def test_it(self): self.assertEqual(RAN, ['First'])\n"
        "class First(unittest.TestCase):\n"
        "    def test_it(self):\n"
        "        RAN.append('First')\n"
        "        self.assertEqual(tempfile.gettempdir(), os.environ['TMPDIR'])\n"
        "        tempfile.mkstemp(prefix='left-by-order-test')\n"
    )
    outcomes, text = run(tmp_path)
    assert set(outcomes.values()) == {"passed"}, text
    assert not list(Path(tempfile.gettempdir()).glob("left-by-order-test*"))


def test_helpers_of_keras_sources_are_found_by_both_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`from tf_keras.distribute import helper` asks for `tf_keras.src.distribute.helper`, for both are one module."""
    (tmp_path / "distribute").mkdir()
    helper = tmp_path / "distribute" / "helper.py"
    helper.touch()
    monkeypatch.setattr(STATE, "packages", {"tf_keras": str(tmp_path)})
    finder = checkouts._HELPERS
    assert finder.find_spec("tf_keras.src.distribute.helper", None) is None
    monkeypatch.setattr(STATE, "legacy_keras", True)
    for name in ("tf_keras.src.distribute.helper", "tf_keras.distribute.helper"):
        spec = finder.find_spec(name, None)
        assert spec is not None
        assert spec.origin == str(helper)
    assert finder.find_spec("tf_keras.distribute.other", None) is None


@pytest.mark.parametrize(
    ("outcomes", "raised"),
    [
        ({"chief": "ok", "worker": "ok"}, None),
        ({"chief": "skipped", "worker": "ok"}, unittest.SkipTest),
        ({"chief": "skipped", "worker": "failed"}, AssertionError),
        ({"chief": "ok"}, AssertionError),
        ({"chief": "skipped"}, AssertionError),
        ({}, AssertionError),
    ],
)
def test_answers_are_counted(outcomes: Mapping[str, str], raised: type[Exception] | None) -> None:
    """A failure outranks a missing answer, which outranks a skip."""
    cluster = {"chief": ["a"], "worker": ["b"]}
    answers = [Answer((job, 0), outcome, "why", 1) for job, outcome in outcomes.items()]
    if raised is None:
        judge(unittest.TestCase(), answers, expected_tasks(cluster, has_chief=True))
        return
    with pytest.raises(raised):
        judge(unittest.TestCase(), answers, expected_tasks(cluster, has_chief=True))


def test_a_task_that_runs_no_test_has_not_passed_it() -> None:
    """As one in which unittest finds none of this name."""
    with pytest.raises(AssertionError, match="worker-0 ran 0 tests"):
        judge(unittest.TestCase(), [Answer(("worker", 0), "ok", "", 0)], {("worker", 0)})


def test_servers_owe_no_answer() -> None:
    """With parameter servers only the chief's function returns."""
    cluster = {"chief": ["a"], "worker": ["b", "c"], "ps": ["d"]}
    assert expected_tasks(cluster, has_chief=True) == {("chief", 0)}
    assert len(expected_tasks({"worker": ["b", "c"]}, has_chief=False)) == 2


def test_a_main_block_keeps_its_contexts_open() -> None:
    """What `with` enters around `main()` stays for the tests, which run later."""
    source = "x = 1\nif __name__ == '__main__':\n  with enter('a') as a, enter('b'):\n    main(a)\n"
    block = main_block.find(source)
    assert block is not None
    seen: list[str] = []

    class Stack:
        def enter_context(self, name: str) -> str:
            seen.append(name)
            return name

    names = {"__lockstep_contexts__": Stack(), "enter": str, "main": lambda a: seen.append(f"main {a}")}
    exec(compile(main_block.keep_open(block), "x", "exec"), names)
    assert seen == ["a", "b", "main a"]
    assert main_block.find("if x == 1:\n  pass\n") is None
