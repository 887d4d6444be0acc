"""Imported in the forkserver: the seam before TensorFlow, then all that the process of a test file needs."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator

from harness.tf_tests.inside import checkouts, seam

__all__: list[str] = []

_LIBRARIES = (
    "tensorflow.python.distribute.combinations",
    "tensorflow.python.distribute.multi_process_runner",
    "tensorflow.python.distribute.multi_worker_test_base",
    "tensorflow.python.distribute.strategy_combinations",
    "tensorflow.python.distribute.strategy_test_lib",
    "tensorflow.python.distribute.test_util",
    "tensorflow.python.eager.test",
    "tf_keras",
    "pytest",
    "dill",
    "harness.tf_tests.inside.hosting",
)


def _preload() -> None:
    seam.install()
    with _installed_first():
        for name in ("tensorflow", *_LIBRARIES):
            with contextlib.suppress(ImportError):  # whoever needs it is told then
                importlib.import_module(name)
    from harness.tf_tests.inside import strict

    strict.install()


@contextlib.contextmanager
def _installed_first() -> Iterator[None]:
    """Import what is installed, also where the session's path begins with a source checkout of the same package."""
    before = list(sys.path)
    sys.path[:] = checkouts.installed_first()
    try:
        yield
    finally:
        sys.path[:] = before


_preload()
