"""Makes TensorFlow import our `multi_process_lib` in the place of its own; installed before TensorFlow is imported."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

__all__ = ["SEAM", "install"]

# The one module of TensorFlow that starts processes for its multi-process tests.
SEAM = "tensorflow.python.distribute.multi_process_lib"
_OURS = Path(__file__).with_name("stand_in.py")


class _Seam(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(SEAM, _OURS) if fullname == SEAM else None


def install() -> None:
    """Put it in front of all other finders.

    Raises:
        RuntimeError: TensorFlow has been imported already.
    """
    if SEAM in sys.modules:
        raise RuntimeError(f"{SEAM} has been imported before its place could be taken")
    sys.meta_path.insert(0, _Seam())
