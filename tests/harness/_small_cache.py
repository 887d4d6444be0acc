"""A verification whose references are kept on a small disk; see test_room."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from harness import NoRoom, verify
from harness.running.cache import CACHE_VARIABLE

STEP_BYTES = 2**18


def main(disk: Path, steps: str) -> dict[str, Any]:
    """Verify a training of so many steps, of which each records `STEP_BYTES`; how that ended, and what is left."""
    os.environ[CACHE_VARIABLE] = str(disk)
    count = int(steps)

    def train(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        with strategy.scope():
            weights = tf.Variable(tf.zeros([STEP_BYTES // 4]))
        for _ in range(count):
            weights.assign_add(tf.ones_like(weights))
            record.step(variables=[weights])

    found = {"text": "", "outcome": ""}
    try:
        found["outcome"] = verify(train, "default", tier="exact", prove=False).outcome
    except NoRoom as error:
        found["text"] = str(error)
    return found | {"bytes": sum(path.stat().st_size for path in disk.rglob("*.trace"))}
