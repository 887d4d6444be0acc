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

__all__ = ["ENTRANCE_VARIABLE", "enter"]

ENTRANCE_VARIABLE = "LOCKSTEP_ENTRANCE"


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
