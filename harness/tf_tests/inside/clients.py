"""DTensor's runner: a module whose `__main__` block starts clients, in all of which each test runs at the same time.

`multi_client_main` of `tensorflow/dtensor/python/tests/multi_client_test_util.py` (2.21) starts `--num_clients`
processes, has a function of the test module configure each, and runs the whole module there; of what fails it says the
exit code of the last client that failed. Here every test runs in all clients of a pool, and each owes one answer.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import unittest
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from harness.tf_tests.inside import held_ports, strict_tests

_LIBRARY = "tensorflow.dtensor.python.tests.multi_client_test_util"
_Configure = Callable[[Mapping[str, Any]], None]
_configure: list[_Configure] = []


def library() -> ModuleType | None:
    """DTensor's runner, if the test module has imported it."""
    return sys.modules.get(_LIBRARY)


def note(configure: _Configure) -> None:
    """In the place of `multi_client_main`: remember the function that configures a client."""
    _configure[:] = [configure]


def asked() -> bool:
    """Whether the module's block has asked for clients."""
    return bool(_configure)


def spread(module: ModuleType) -> None:
    """In the file's process: from now on the module's tests run in the clients, with what is around them."""
    clients = functools.cache(_Clients)
    for case in vars(module).values():
        if isinstance(case, type) and issubclass(case, unittest.TestCase):
            for name in unittest.defaultTestLoader.getTestCaseNames(case):
                setattr(case, name, _in_clients(getattr(case, name), clients))
            for name in ("setUp", "tearDown"):
                setattr(case, name, lambda self: None)


def _in_clients(method: Any, clients: Callable[[], _Clients]) -> Any:
    @functools.wraps(method)
    def test(self: unittest.TestCase) -> None:
        strict_tests.run_in_tasks(self, lambda: clients().run(self.id()), has_chief=False)

    return test


class _Clients:
    """The pool, whose processes are configured as clients when they begin."""

    def __init__(self) -> None:
        from absl import flags
        from tensorflow.python.distribute import multi_process_runner

        # Without clients there is one process, which is told that it is none.
        number = max(1, flags.FLAGS.num_clients)
        self._cluster = {"worker": [f"localhost:{held_ports.pick()}" for _ in range(number)]}
        begin = functools.partial(_begin, self._cluster["worker"])
        self._pool = multi_process_runner.MultiProcessPoolRunner(self._cluster, initializer=begin)

    def run(self, test_id: str) -> tuple[Mapping[str, list[str]], list[Any]]:
        """Run a test in all of them; the cluster, and what each says."""
        return self._cluster, self._pool.run(strict_tests.run_one_test, args=(test_id, None))


def _begin(jobs: list[str]) -> None:
    """In a client: what DTensor's runner does before the tests."""
    from absl import flags
    from tensorflow.dtensor.python.tests import test_backend_util

    number = int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])
    clients = flags.FLAGS.num_clients
    if os.environ.get("CUDA_VISIBLE_DEVICES") != "-1":
        test_backend_util.slice_host_devices_for_multiworker(clients, number, [])
    (configure,) = _configure
    devices = flags.FLAGS.num_local_devices
    configure({"num_clients": clients, "client_id": number, "worker_jobs": jobs, "num_devices": devices})
