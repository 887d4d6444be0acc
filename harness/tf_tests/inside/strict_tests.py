"""Tests that run in every task, counted: one answer from each, of one test, and a failure outranks a skip.

In the place of `_test_runner` and `_multi_worker_test` of `tensorflow/python/distribute/combinations.py` (2.21, lines
482 to 592), which take what answers there are.
"""

# ruff: noqa: SLF001 - what has to be replaced is private
from __future__ import annotations

import json
import os
import sys
import unittest
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.tf_tests.inside import checkouts
from harness.tf_tests.inside.state import STATE
from harness.tf_tests.inside.strict_runner import trouble


@dataclass(frozen=True)
class Answer:
    """What one task says of the test.

    Attributes:
        task: as in `("worker", 0)`.
        outcome: `ok`, `failed` or `skipped`.
        message: the traceback, or the reason.
        tests: how many have run.
    """

    task: tuple[str, int]
    outcome: str
    message: str
    tests: int


def install() -> None:
    """Replace both; again after `importlib.reload`."""
    from tensorflow.python.distribute import combinations

    combinations._test_runner = run_one_test
    combinations._multi_worker_test = decorated


def run_one_test(test_id: str, test_env: Any) -> Answer:
    """In a task: run this test, in the way that unittest does it."""
    from tensorflow.python.distribute import combinations

    # For good: this is a task.
    combinations._running_in_worker = True
    combinations._env = test_env
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    if STATE.file is not None:
        checkouts.load(STATE.file)
    test = _find(test_id)
    result = unittest.TextTestRunner(stream=sys.stderr).run(test)
    # An expected failure is one here, so that the test fails as it is expected to where its outcome is decided.
    failures = [*result.failures, *result.errors, *result.expectedFailures]
    outcome, message = "ok", ""
    if failures:
        outcome, message = "failed", failures[0][1]
    elif result.skipped:
        outcome, message = "skipped", result.skipped[0][1]
    return Answer((task["type"], int(task["index"])), outcome, message, result.testsRun)


def _find(test_id: str) -> unittest.TestSuite:
    """The test of this id; not by a chain of attributes, which some packages cut, as `tensorflow` does."""
    names = test_id.split(".")
    for depth in range(len(names) - 1, 0, -1):
        if (module := sys.modules.get(".".join(names[:depth]))) is not None:
            return unittest.defaultTestLoader.loadTestsFromName(".".join(names[depth:]), module)
    return unittest.defaultTestLoader.loadTestsFromName(test_id)


def expected_tasks(cluster: Mapping[str, list[str]], *, has_chief: bool) -> set[tuple[str, int]]:
    """Who owes an answer: every task, or the chief alone where parameter servers, which serve for ever, take part."""
    if cluster.get("ps") and has_chief:
        return {("chief", 0)}
    return {(job, number) for job, addresses in cluster.items() for number in range(len(addresses))}


def judge(case: unittest.TestCase, answers: Iterable[Answer], expected: set[tuple[str, int]]) -> None:
    """Fail, skip or return, by all answers together.

    Raises:
        AssertionError: one task failed, or owes its answer, or ran no test, or several.
        unittest.SkipTest: nobody failed, and one skipped.
    """
    answers = list(answers)
    if failed := [each for each in answers if each.outcome == "failed"]:
        case.fail("\n".join(f"in {_name(each.task)}:\n{each.message}" for each in failed))
    if silent := sorted(expected - {each.task for each in answers}):
        names = ", ".join(map(_name, silent))
        case.fail(trouble(f"no answer from {names}: it ended, or was ended, before the test was over there"))
    if odd := [f"{_name(each.task)} ran {each.tests} tests" for each in answers if each.tests != 1]:
        case.fail(trouble(f"one test was to run in each task, but {', '.join(odd)}"))
    if skipped := [each for each in answers if each.outcome == "skipped"]:
        case.skipTest(skipped[0].message)


def _name(task: tuple[str, int]) -> str:
    return f"{task[0]}-{task[1]}"


def run_in_tasks(
    case: unittest.TestCase, run: Callable[[], tuple[Mapping[str, list[str]], list[Answer]]], *, has_chief: bool
) -> None:
    """Run a test by `run`, which returns the cluster and its answers, and judge it by them; as `judge`."""
    try:
        cluster, answers = run()
    except Exception as error:
        # What a test does is in the answers; whatever is raised here kept the tasks from giving them.
        trouble(f"the test could not be run in tasks: {type(error).__name__}: {error}")
        raise
    judge(case, answers, expected_tasks(cluster, has_chief=has_chief))


def decorated(test_method: Any) -> Any:
    """The test method, which in the process of its file runs in the tasks of a cluster, if it asks for one."""
    from tensorflow.python.distribute import combinations
    from tensorflow.python.framework import test_util
    from tensorflow.python.util import tf_decorator, tf_inspect

    def decorator(
        self: Any, has_chief: bool, num_workers: int, num_ps: int, share_gpu: bool, runner: Any, **kwargs: Any
    ) -> None:
        alone = combinations._num_total_workers(has_chief, num_workers) == 1 or combinations._running_in_worker
        if alone or (test_util.is_xla_enabled() and num_ps > 0):
            with combinations._multi_worker_session(kwargs):
                test_method(self, **kwargs)
            return

        def run() -> tuple[Mapping[str, list[str]], list[Answer]]:
            if runner:
                answers = runner.run(combinations._test_runner, args=(self.id(), combinations._env))
                return runner._cluster_spec, answers
            return _in_own_processes(self.id(), has_chief, num_workers, num_ps, share_gpu)

        run_in_tasks(self, run, has_chief=has_chief)

    spec = tf_inspect.getfullargspec(test_method)
    names = [*(spec.args or []), "has_chief", "num_workers", "num_ps", "share_gpu", "runner"]
    return tf_decorator.make_decorator(test_method, decorator, decorator_argspec=spec._replace(args=names))


def _in_own_processes(
    test_id: str, has_chief: bool, num_workers: int, num_ps: int, share_gpu: bool
) -> tuple[dict[str, list[str]], list[Answer]]:
    from tensorflow.python.distribute import combinations, multi_process_runner, multi_worker_test_base

    cluster = multi_worker_test_base.create_cluster_spec(
        has_chief=has_chief, num_workers=num_workers, num_ps=num_ps, has_eval=False
    )
    one = multi_process_runner.MultiProcessRunner(
        combinations._test_runner,
        cluster,
        share_gpu=share_gpu,
        args=(test_id, combinations._env),
        # TensorFlow kills whoever is not done 3 s after the chief.
        dependence_on_chief=False,
    )
    one.start()
    if has_chief and num_ps > 0:
        _end_with_chief(one)
    return cluster, one.join().return_value


def _end_with_chief(runner: Any) -> None:
    """End the servers with the chief: TensorFlow gives each of them, one after the other, 3 s to end by itself.

    They serve for ever. `combinations` has every task but the chief do so where parameter servers take part.
    """
    from multiprocess import connection

    # Not `join`: the runner's watchdog asks for the exit code as well, which is there for one to read.
    connection.wait([runner._processes[("chief", 0)].sentinel])
    runner.terminate_all()
