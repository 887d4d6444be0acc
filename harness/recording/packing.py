"""What a program gives the devices of a mesh by `dtensor.pack`, which believes that copies of one shard are equal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.layouts import local_shards
from harness.recording.patches import patched
from harness.recording.watch.places import Places


@contextlib.contextmanager
def unlike_copies_heard(
    hear: Callable[[str], None],
    looking: Callable[[], contextlib.AbstractContextManager[None]],
) -> Iterator[None]:
    """Hear of the lines that pack different copies of one shard in this context.

    Args:
        hear: is called with the line, `FILE:LINE`, or with nothing where it is not known.
        looking: a context in which the copies are looked at, and which no error leaves.
    """
    from tensorflow.experimental import dtensor

    places = Places()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def pack(tensors: Any, layout: Any) -> Any:
            with looking():
                shards: dict[tuple[int, ...], set[bytes]] = {}
                for shard, part in zip(local_shards(layout), tensors, strict=False):
                    shards.setdefault(shard, set()).add(part.numpy().tobytes())
                if any(len(copies) > 1 for copies in shards.values()):
                    hear(places.line() or "")
            return original(tensors, layout)

        return pack

    with patched(dtensor, "pack", around):
        yield
