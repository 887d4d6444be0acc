"""Where a function asks for the number of replicas, which is another one in the reference."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

from harness.recording.watch.places import Places


@contextlib.contextmanager
def lines_that_count() -> Iterator[dict[str, None]]:
    """Lines of the program's own at which it reads `num_replicas_in_sync` in this context, outside of replicas."""
    from tensorflow.python.distribute import distribute_lib

    places, found, original = Places(), dict[str, None](), distribute_lib.StrategyBase.num_replicas_in_sync

    def count(strategy: Any) -> Any:
        file = sys._getframe(1).f_code.co_filename  # noqa: SLF001 - who asks is all that is to be known
        if places.is_own(file) and (line := places.line()) is not None:
            found[line] = None
        return original.fget(strategy)

    with mock.patch.object(distribute_lib.StrategyBase, "num_replicas_in_sync", property(count)):
        yield found
