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

_VARIABLE = "LOCKSTEP_CACHE"
# Tells this session from others that keep things in the same directory; what is known of the machine is not for them.
_SESSION_VARIABLE = "LOCKSTEP_SESSION"
_WARDEN = "_lockstep._warden"
_CACHE = pytest.StashKey[Path]()
_SESSION = pytest.StashKey["str | None"]()


def share_references(config: pytest.Config) -> None:
    """Name the directory, which whoever needs it first makes; it is gone after the session in any case.

    xdist's workers inherit the variable, so that a reference runs once a session and not once a worker.
    """
    if hasattr(config, "workerinput"):
        return
    if _SESSION not in config.stash:
        config.stash[_SESSION] = os.environ.get(_SESSION_VARIABLE)
        os.environ[_SESSION_VARIABLE] = uuid.uuid4().hex[:12]
    if _VARIABLE in os.environ:
        return
    directory = Path(tempfile.gettempdir(), f"lockstep-references-{uuid.uuid4().hex[:12]}")
    _warden().watch_directory(directory)
    config.stash[_CACHE] = directory
    os.environ[_VARIABLE] = str(directory)


def forget_references(config: pytest.Config) -> None:
    """Remove the directory, or what this session alone has left in one that was given."""
    if _SESSION in config.stash:
        for path in Path(os.environ.get(_VARIABLE, os.devnull)).glob(f"gpus-{os.environ.get(_SESSION_VARIABLE)}-*"):
            path.unlink(missing_ok=True)
        before = config.stash[_SESSION]
        os.environ.pop(_SESSION_VARIABLE, None) if before is None else os.environ.update({_SESSION_VARIABLE: before})
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
