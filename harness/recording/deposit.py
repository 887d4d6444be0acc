"""Around a training that others have started: it leaves the evidence of some of its steps, and is not disturbed."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import gethostname
from typing import Any

import psutil

from harness.evidence.deposit import DepositJob, digest_of, ended, opened, pids, variables_of
from harness.evidence.steps import StepFileWriter
from harness.evidence.trace import Header
from harness.recording.client import uses_onednn, versions
from harness.recording.patches import patched
from harness.recording.scripts.strategy_adoption import adopt_strategy
from harness.recording.steps import SampleWriter
from harness.recording.witness import Witness, all_seams

_NAMES = {
    "MirroredStrategy": "mirrored-{replicas}",
    "CentralStorageStrategy": "central_storage-{replicas}",
    "CollectiveAllReduceStrategy": "multi_worker-{clients}",
    "_CollectiveAllReduceStrategyExperimental": "multi_worker-{clients}",
}
_NOT_NEEDED = (
    "averages",
    "callbacks",
    "examples",
    "executed",
    "lent",
    "logs",
    "pipelines",
    "reductions",
    "restores",
    "tables",
)
"""Seams for what the judge does not ask of single steps, some of which cost something at each step."""
_MODELS = ("keras.src.models.model", "tf_keras.src.engine.training")
"""Modules with the models of both Kerases."""


class _Notes:
    """Sentences, each of which is said once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            sys.stderr.write(f"lockstep watch: {text}\n")


class EvidenceDeposit:
    """Leaves the evidence of a training of this process, from when its strategy is built on.

    Args:
        every: of each step whose number can be divided by this, and of the first.
        out: the deposit; it is made when the strategy is built.
        room: bytes that all tasks together may take.

    Attributes:
        any_built: whether the program has built a strategy.
    """

    def __init__(self, every: int, out: Path, room: int) -> None:
        self._out = out
        self._room = room
        self._note = _Notes()
        alone = "TF_CONFIG" not in os.environ
        seams = [seam for seam in all_seams() if _name(seam) not in _NOT_NEEDED]
        self._witness = Witness(None, 1, seams, alone=alone)
        note, writer = self._note, StepFileWriter(self._note)
        self._leaving = self._witness.leave(lambda *deliver: SampleWriter(every, writer, note, *deliver))
        self._folder: Path | None = None
        self.any_built = False

    @contextlib.contextmanager
    def active(self, model: Any = None) -> Iterator[None]:
        """Within this context the training is seen, of a Keras model if that has been built before."""
        import tensorflow as tf

        with (
            adopt_strategy(self.built, lambda: "the program", checked=False),
            _saves_heard(self._leaving.saves),
            self._witness.active(self._leaving.saw),
        ):
            if model is not None:
                self.built(model.distribute_strategy)
                self._witness.know(model)
            elif tf.distribute.has_strategy():
                self.built(tf.distribute.get_strategy())
            yield

    def built(self, strategy: Any) -> None:
        """Take a strategy of the program's for that of the training."""
        self.any_built = True
        try:
            if self._folder is None:
                self._open(strategy)
            self._witness.adopt(strategy)
        except Exception as error:  # noqa: BLE001 - a training does not fail because it is watched
            self._note(f"no evidence is left: {type(error).__name__}: {error}")

    def _open(self, strategy: Any) -> None:
        kind = next((each.__name__ for each in type(strategy).__mro__ if each.__name__ in _NAMES), None)
        if kind is None:
            self._note(f"steps under {type(strategy).__name__} leave no evidence")
            return
        replicas = strategy.num_replicas_in_sync
        clients = getattr(strategy.extended, "_num_workers", 1)
        number = getattr(strategy.extended, "_id_in_cluster", 0)
        local = replicas // clients
        name = _NAMES[kind].format(replicas=replicas, clients=clients)
        name += f"x{local}" if "{clients}" in _NAMES[kind] and local > 1 else ""
        task = f"worker:{number}" if clients > 1 else "local:0"
        header = Header(task, 0, name, replicas, local, clients, 0, versions(), onednn=uses_onednn())
        script = str(Path(sys.argv[0]).absolute())
        told = digest_of(script), variables_of(os.environ), gethostname(), *_hardware(strategy)
        own = psutil.Process()
        process = own.pid, own.create_time(), pids()
        job = DepositJob(header, script, tuple(sys.argv[1:]), str(Path.cwd()), *told, *process)
        self._folder = opened(self._out, job)
        self._leaving.into(self._folder, self._room // clients, range(number * local, (number + 1) * local))

    def end(self) -> None:
        """The training has come to its end."""
        with contextlib.suppress(OSError):  # who judges waits longer
            if self._folder is not None:
                ended(self._folder)


@contextlib.contextmanager
def _saves_heard(listener: Callable[[], None]) -> Iterator[None]:
    """Call `listener` in this context before the program's own thread saves variables, as they are then.

    What another thread saves has been copied earlier, and nobody knows when.
    """
    import tensorflow as tf
    from tensorflow.python.checkpoint.checkpoint import TrackableSaver

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def save(*args: Any, **options: Any) -> Any:
            if threading.current_thread() is threading.main_thread() and not tf.inside_function():
                listener()
            return original(*args, **options)

        return save

    owners = [(TrackableSaver, "save")]
    for module in (sys.modules[name] for name in _MODELS if name in sys.modules):
        owners += [(module.Model, "save"), (module.Model, "save_weights")]
    with contextlib.ExitStack() as stack:
        for owner, name in owners:
            stack.enter_context(patched(owner, name, around))
        yield


def _hardware(strategy: Any) -> tuple[str, bool]:
    """What its replicas compute on, and whether they may round factors to TF32."""
    import tensorflow as tf

    on_gpu = any("GPU" in device for device in strategy.extended.worker_devices)
    return ("gpu", tf.config.experimental.tensor_float_32_execution_enabled()) if on_gpu else ("cpu", False)


def _name(seam: Any) -> str:
    return str(seam.__name__).rpartition(".")[2]
