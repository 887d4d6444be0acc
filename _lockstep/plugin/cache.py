"""One cache of reference runs for all processes of a session, made known to them by an environment variable."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest

from _lockstep.names import HOME

__all__ = ["forget_references", "share_references"]

_VARIABLE = "LOCKSTEP_CACHE"
_WARDEN = "_lockstep._warden"
_CACHE = pytest.StashKey[Path]()


def share_references(config: pytest.Config) -> None:
    """Name the directory, which whoever needs it first makes; it is gone after the session in any case.

    xdist's workers inherit the variable, so that a reference runs once a session and not once a worker.
    """
    if _VARIABLE in os.environ or hasattr(config, "workerinput"):
        return
    directory = Path(tempfile.gettempdir(), f"lockstep-references-{uuid.uuid4().hex[:12]}")
    _warden().watch_directory(directory)
    config.stash[_CACHE] = directory
    os.environ[_VARIABLE] = str(directory)


def forget_references(config: pytest.Config) -> None:
    """Remove the directory."""
    if directory := config.stash.get(_CACHE, None):
        os.environ.pop(_VARIABLE, None)
        shutil.rmtree(directory, ignore_errors=True)
        _warden().forget_directory(directory)


def _warden() -> Any:
    """The simulator's warden, by its file: the session's tests may be of a project with a `simulator` of its own.

    That file needs nothing but the standard library, since it is a program as well.
    """
    if _WARDEN not in sys.modules:
        spec = importlib.util.spec_from_file_location(_WARDEN, HOME / "simulator" / "machines" / "local" / "warden.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[_WARDEN] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[_WARDEN].warden
