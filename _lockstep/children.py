"""How a Python process that this one starts finds Lockstep's code, and what else this one can import.

A child must not depend on how Lockstep was installed (an editable install is not on the path at all), nor on what lies
in the working directory. Everything that starts one asks here; only the warden needs nothing but its own file.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from _lockstep import names
from _lockstep._door import lockstep_child

_DOOR = Path(lockstep_child.__file__).resolve()
# What a child with `child_environment` has to import first.
PRELOAD = "lockstep_child"


def child_command(module: str, *arguments: str, isolated: bool = False) -> list[str]:
    """The command that calls `module.main(*arguments)` in a fresh interpreter.

    Args:
        module: found in the child as it is here.
        arguments: for its `main`.
        isolated: without what `site` and the environment would bring, such as threads that others start.
    """
    options = ("-I", "-S") if isolated else ()
    return [sys.executable, *options, str(_DOOR), _entrance(), module, *arguments]


def child_environment() -> dict[str, str]:
    """The variables with which a fresh interpreter that imports `PRELOAD` finds everything else.

    Its PYTHONPATH has a folder in front that holds nothing but that module, so that it hides nobody's.
    """
    paths = os.pathsep.join(filter(None, (str(_DOOR.parent), os.environ.get("PYTHONPATH"))))
    # From Python 3.11 on, a file `signal.py` or `types.py` of the working directory does not get in the way either.
    return {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1", lockstep_child.ENTRANCE_VARIABLE: _entrance()}


def _entrance() -> str:
    # An entry may be a placeholder of somebody's finder, so only the one that stands for the working directory changes.
    path = [entry or str(Path.cwd()) for entry in sys.path]
    return json.dumps({"path": path, "names": names.claimed()})
