"""Imported in the forkserver: the seam before TensorFlow, then all that the process of a test file needs."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from harness.tf_tests.inside import checkouts

# The one module of TensorFlow that starts processes for its multi-process tests.
_SEAM = "tensorflow.python.distribute.multi_process_lib"
_OURS = Path(__file__).with_name("stand_in.py")
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
    "harness.tf_tests.inside.hosted_session",
)


def _preload() -> None:
    _take_the_place()
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


class _Seam(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(_SEAM, _OURS) if fullname == _SEAM else None


def _take_the_place() -> None:
    """Have TensorFlow import our `multi_process_lib` in the place of its own; before TensorFlow is imported.

    Raises:
        RuntimeError: TensorFlow has been imported already.
    """
    if _SEAM in sys.modules:
        raise RuntimeError(f"{_SEAM} has been imported before its place could be taken")
    sys.meta_path.insert(0, _Seam())


_preload()
