"""What a process of the standard `multiprocessing` begins with in a test that `harness.tf_tests` hosts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from _lockstep import names


def arrive(claimed: Sequence[str], state: Mapping[str, Any], kind: type) -> object:
    """Be one of the file's before the rest of the process object is unpickled, which imports the test module.

    Args:
        claimed: the names that are Lockstep's where it was started.
        state: of the process that starts it.
        kind: of the object.
    """
    names.claim(*claimed)
    from harness.tf_tests.inside.task_start import TaskStart, arrive

    return arrive(TaskStart(state, dict(os.environ)), kind)
