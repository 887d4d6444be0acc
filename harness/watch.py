"""A training on its own hardware leaves the evidence of some steps while it trains: `with watch(every=500, out=DIR):`.

`python -m harness.watch --every 500 --out DIR train.py ARGS` does so for a script that is not changed.
"""

from __future__ import annotations

import ast
import contextlib
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simulator.launch.before_import import before_tensorflow
from simulator.units import parse_size

EVERY, ROOM = 500, "20GB"


@contextlib.contextmanager
def watch(every: int = EVERY, *, out: str | Path, room: str = ROOM, model: Any = None) -> Iterator[None]:
    """Within this context a training leaves evidence of its steps in a directory, for `lockstep judge`.

    It has to begin before the strategy is built, and before any variable is. It never fails a training: what cannot be
    left costs a line on stderr. In a process that is watched already, such as one of a judge, it does nothing.

    Args:
        every: of each step whose number can be divided by this, of the first, and of a function whose steps have other
            numbers.
        out: the directory, which all tasks of the job share.
        room: what they may take there together, such as `20GB`; of more the oldest steps are removed.
        model: of Keras, if that has been built and compiled before.

    Raises:
        UsageError: `room` is no size.
        ValueError: `every` is no number of steps.
    """
    if every < 1:
        raise ValueError(f"every={every} is no number of steps; give a whole number from 1")
    folder, size = Path(out).absolute(), parse_size(room, "room")
    if model is not None and _is_under_none(model.distribute_strategy):
        _say(f"the model was built under no strategy of tf.distribute, so nothing is left in {folder}")
        yield
        return
    from harness.recording.deposit import EvidenceDeposit
    from harness.recording.witness import Witness

    if Witness.at_work:
        yield
        return
    depositing = EvidenceDeposit(every, folder, size)
    try:
        with depositing.active(model):
            yield
        depositing.end()
    except SystemExit as error:
        if not error.code:  # so a script may come to its end
            depositing.end()
        raise
    finally:
        if not depositing.any_built:
            _say(f"no strategy of tf.distribute was built here, so nothing is left in {folder}")


def _is_under_none(strategy: Any) -> bool:
    """Whether it is the one that TensorFlow has where nobody has built any."""
    import tensorflow as tf

    return not tf.distribute.has_strategy() and strategy is tf.distribute.get_strategy()


def _say(text: str) -> None:
    sys.stderr.write(f"lockstep watch: {text}\n")


def callback(model: Any, every: int = EVERY, *, out: str | Path, room: str = ROOM) -> Any:
    """For `model.fit(callbacks=[callback(model, out=DIR)])`, of Keras 3 and of tf_keras; the rest as of `watch`."""
    from harness.recording.keras_callback import callback_class

    watching = contextlib.ExitStack()

    def begin(callback: Any, logs: Any = None) -> None:
        watching.enter_context(watch(every, out=out, room=room, model=model))

    def end(callback: Any, logs: Any = None) -> None:
        watching.close()

    return type("LockstepWatch", (callback_class(model),), {"on_train_begin": begin, "on_train_end": end})()


def main(*words: str) -> None:
    """Run a script that leaves evidence, as `python FILE ARGS` runs it."""
    import argparse

    parser = argparse.ArgumentParser("python -m harness.watch", description="Run a script that leaves evidence.")
    parser.add_argument("--every", type=int, default=EVERY, help="of each step of such a number (default %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="directory that all tasks share")
    parser.add_argument("--room", default=ROOM, help="that it may take (default %(default)s)")
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    # What it sets before it imports TensorFlow has to be set when that is imported here.
    os.environ.update(before_tensorflow(ast.parse(Path(given.script).read_bytes()), os.environ).variables)
    sys.argv = [given.script, *given.args]
    sys.path.insert(0, str(Path(given.script).absolute().parent))
    with watch(given.every, out=given.out, room=given.room):
        runpy.run_path(given.script, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
