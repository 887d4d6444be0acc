"""The threads in which MirroredStrategy runs its replicas: they belong to who has started them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from harness.recording.patches import patched
from harness.recording.witness.protocol import WitnessState


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Know the threads of replicas that are started in this context."""
    from tensorflow.python.distribute import mirrored_run

    with patched(mirrored_run._MirroredReplicaThread, "__init__", gathered.threads.replicas):  # noqa: SLF001
        yield
