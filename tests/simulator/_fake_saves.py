"""Stand-ins for TensorFlow's checkpoints as far as they can be seen to save, for tests without TensorFlow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from simulator import Cluster, Topology
from simulator.journal import read_journal
from tests.simulator._faults import own_agent

_CHECKPOINT = """
import os

class TrackableSaver:
    def save(self, file_prefix, session=None, options=None):
        if str(file_prefix).startswith("bad"):
            raise OSError("no space")
        os.makedirs(os.path.dirname(file_prefix) or ".", exist_ok=True)
        for name, size in ((".index", 5), (".data-00000-of-00001", 20)):
            with open(file_prefix + name, "wb") as file:
                file.write(bytes(size))
    def restore(self, save_path, options=None):
        if save_path is not None:
            os.stat(save_path + ".index")
        return "status"

class Checkpoint:
    def __init__(self):
        self._saver, self.number, self._helper = TrackableSaver(), 0, None
    def write(self, file_prefix, options=None):
        return self._write(file_prefix, options)
    def _write(self, file_prefix, options=None):
        if options == "async":
            return self.helper()._write(file_prefix)
        self._saver.save(file_prefix=file_prefix, options=options)
        return file_prefix
    def save(self, file_prefix, options=None):
        if options == "async":
            return self.helper().save(file_prefix)
        self.number += 1
        return self._write(f"{file_prefix}-{self.number}")
    def read(self, save_path, options=None):
        return self._saver.restore(save_path=save_path)
    def restore(self, save_path, options=None):
        return self.read(save_path)
    def helper(self):
        from tensorflow.python.checkpoint import async_checkpoint_helper
        if self._helper is None:
            self._helper = async_checkpoint_helper.AsyncCheckpointHelper(Checkpoint())
        return self._helper
"""
_MANAGEMENT = """
class CheckpointManager:
    def __init__(self, checkpoint, directory, interval=1):
        self._checkpoint, self._directory, self._interval, self._asked = checkpoint, directory, interval, 0
        self._latest = None
    def save(self, checkpoint_number=None, check_interval=True, options=None):
        self._asked += 1
        if self._asked % self._interval:
            return None
        self._checkpoint.number += 1
        self._latest = self._checkpoint._write(f"{self._directory}/ckpt-{self._checkpoint.number}", options)
        return self._latest
    def restore_or_initialize(self):
        if self._latest is not None:
            self._checkpoint.restore(self._latest)
        return self._latest
"""
_ASYNC = """
import queue, threading

class AsyncCheckpointHelper:
    slow = threading.Event()
    def __init__(self, checkpoint):
        self._checkpoint, self._queue, self._error = checkpoint, queue.Queue(maxsize=1), None
        threading.Thread(target=self._async_save, daemon=True).start()
    def _async_save(self):
        while work := self._queue.get():
            try:
                self.slow.wait(0.1)
                getattr(self._checkpoint, work[0])(work[1])
            except Exception as error:
                self._error = error
            finally:
                self._queue.task_done()
    def _hand_over(self, how, path):
        self._queue.join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        self._queue.put((how, path))
    def save(self, save_path, options=None):
        self._hand_over("save", save_path)
        return f"{save_path}-{self._checkpoint.number + 1}"
    def _write(self, save_path, options=None):
        self._hand_over("_write", save_path)
        return save_path
"""


def write_fakes(directory: Path) -> str:
    """Write the stand-ins below this directory; the path on which Python finds them."""
    folder = directory / "fakes"
    for package in ("tensorflow", "tensorflow/python", "tensorflow/python/checkpoint"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    for name, code in (
        ("checkpoint", _CHECKPOINT),
        ("checkpoint_management", _MANAGEMENT),
        ("async_checkpoint_helper", _ASYNC),
    ):
        (folder / "tensorflow/python/checkpoint" / f"{name}.py").write_text(code)
    return str(folder)


def checkpoints(path: str) -> tuple[Any, Any]:
    """In a task: the stand-ins for `tf.train.Checkpoint` and `tf.train.CheckpointManager`."""
    if path not in sys.path:
        sys.path.insert(0, path)
    from tensorflow.python.checkpoint import checkpoint, checkpoint_management

    return checkpoint.Checkpoint, checkpoint_management.CheckpointManager


def train(path: str, directory: str, steps: int, interval: int) -> None:
    """Announce so many steps, and save after every `interval` of them."""
    agent = own_agent()
    checkpoint, manager = checkpoints(path)
    own = manager(checkpoint(), f"{directory}/{agent.spec.task}")
    for number in range(1, steps + 1):
        agent.step(number)
        if number % interval == 0:
            own.save()


def saves_of(out: Path) -> list[dict[str, Any]]:
    """The events of saves and restores of the first run."""
    events = read_journal(out / "0" / "journal.jsonl")
    return [event for event in events if event["event"] in ("save", "restore")]


def run_one(function: Any, out: Path, *args: Any, **options: Any) -> Any:
    """Run a function in one worker without TensorFlow; what it returned."""
    with Cluster(Topology(worker=1), preload=(), timeout=30, out=out, **options) as cluster:
        return cluster.run(function, *args)["worker:0"].value
