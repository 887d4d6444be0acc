"""Tables that the program writes while it trains: state that is no variable, which nobody sets or compares.

What is looked up in one may stand among the examples, also in the data set, where nobody knows how far training is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.recording.patches import patched
from harness.recording.watch.places import Places
from harness.recording.witness.protocol import WitnessState
from simulator.agent.places import place

__all__ = ["active"]

_WRITES = ("lookup_table_insert_v2", "lookup_table_remove_v2", "lookup_table_import_v2")


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Note in `gathered.noted` the lines that write a table in this context, in a step or after the first one."""
    from tensorflow.python.ops import gen_lookup_ops

    places = Places()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **options: Any) -> Any:
            if gathered.is_training:
                with gathered.looking("tables"):
                    caller = places.here().caller
                    line = None if caller is None else places.frames[caller]
                    gathered.noted.tables["" if line is None else place(Path(line.file).name, line.line)] = None
            return original(*args, **options)

        return write

    with contextlib.ExitStack() as stack:
        for name in _WRITES:
            stack.enter_context(patched(gen_lookup_ops, name, around))
        yield
