"""What examples may follow from that is no variable: tables that the program writes, and numbers of replicas.

What is looked up in a table may stand among the examples, also in the data set, where nobody knows how far training is.
What a program makes for each replica by its number is another thing where there is only one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from harness.recording.patches import patched
from harness.recording.watch.places import Places
from harness.recording.witness.protocol import WitnessState
from simulator.agent.places import place

_WRITES = ("lookup_table_insert_v2", "lookup_table_remove_v2", "lookup_table_import_v2")
_BY_REPLICA = "experimental_distribute_values_from_function"


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Note in `gathered.noted` the lines that do either in this context, in a step or after the first one."""
    from tensorflow.python.distribute import distribute_lib
    from tensorflow.python.ops import gen_lookup_ops

    places = Places()

    def noting(lines: dict[str, None], original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if gathered.is_training:
                with gathered.looking("tables"):
                    caller = places.here().caller
                    line = None if caller is None else places.frames[caller]
                    lines["" if line is None else place(Path(line.file).name, line.line)] = None
            return original(*args, **options)

        return call

    tables, values = (partial(noting, lines) for lines in (gathered.noted.tables, gathered.noted.by_replica))
    with contextlib.ExitStack() as stack:
        for name in _WRITES:
            stack.enter_context(patched(gen_lookup_ops, name, tables))
        stack.enter_context(patched(distribute_lib.Strategy, _BY_REPLICA, values))
        yield
