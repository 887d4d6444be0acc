"""Which replica is being run."""

from __future__ import annotations

from harness.recording.witness.protocol import WitnessState


def replica_number(gathered: WitnessState) -> int | None:
    """The number of the replica that is being run, over all workers; None outside of each or where it is no number."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or not gathered.knows(context.strategy):
        return None
    number = context._replica_id_in_sync_group  # noqa: SLF001 - the public property makes an op of it
    return number if isinstance(number, int) else None
