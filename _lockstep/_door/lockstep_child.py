"""The first thing of Lockstep that a child process runs or imports: it makes Lockstep's packages importable there.

Standard library only. It goes by the place of its own file, so it does not matter how Lockstep was installed, what the
working directory holds, or whether this interpreter looks at `site-packages` at all.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path

ENTRANCE_VARIABLE = "LOCKSTEP_ENTRANCE"
# Where this interpreter looked for modules when it began.
_found = list(sys.path)
_given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def of_interpreter() -> list[str]:
    """Where it finds modules whatever PYTHONPATH says: the standard library, and what is installed."""
    given = {os.path.abspath(entry) for entry in _given}  # noqa: PTH100 - as Python has it
    return [entry for entry in _found if os.path.abspath(entry) not in given]  # noqa: PTH100 - as above


def enter(entrance: str) -> None:
    """Have this process find modules where its parent does, and Lockstep's packages for certain.

    Args:
        entrance: what `_lockstep.children` has written.
    """
    told = json.loads(entrance)
    sys.path[:] = told["path"]
    if "_lockstep" not in sys.modules:
        package = Path(__file__).resolve().parents[1]
        spec = importlib.util.spec_from_file_location("_lockstep", package / "__init__.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules["_lockstep"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    importlib.import_module("_lockstep.names").claim(*told["names"])


if __name__ == "__main__":
    enter(sys.argv[1])
    importlib.import_module(sys.argv[2]).main(*sys.argv[3:])
elif __name__ == "lockstep_child" and ENTRANCE_VARIABLE in os.environ:
    enter(os.environ.pop(ENTRANCE_VARIABLE))
