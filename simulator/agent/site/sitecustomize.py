"""Runs at the start of each Python process of an unmodified program: waits for TensorFlow or Keras to be imported.

Standard library only, and quick: nothing is imported that the program would not import itself, until it imports
TensorFlow. Whatever goes wrong here is a line in the log and never ends the program.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would double the time of a start
# Modules of a program, and which functions of simulator.agent.steps to call with each as soon as it has been imported.
SAVES = {
    "tensorflow.python.checkpoint.checkpoint": ("saves.saving:checkpoints",),
    "tensorflow.python.checkpoint.checkpoint_management": ("saves.saving:managers",),
    "tensorflow.python.checkpoint.async_checkpoint_helper": ("saves.saving:async_checkpoints",),
    "tensorflow.python.saved_model.load": ("saves.saving:saved_models",),
    "tensorflow.python.saved_model.save": ("saves.saving:saved_models",),
    "keras.src.models.model": ("saves.saving:keras_models",),
    "keras.src.saving.saving_api": ("saves.saving:keras_functions",),
    "tf_keras.src.engine.training": ("saves.saving:keras_models",),
    "tf_keras.src.saving.saving_api": ("saves.saving:keras_functions",),
}
STEPS = {
    "tensorflow": ("steps.patches:on_tensorflow",),
    "tensorflow.python.distribute.coordinator.cluster_coordinator": ("steps.patches:count_closures",),
    "tensorflow.python.distribute.distribute_lib": ("steps.patches:count_runs",),
    "tensorflow.python.eager.backprop": ("steps.gradients:watch_tapes",),
    "tensorflow.python.eager.polymorphic_function.concrete_function": ("steps.gradients:note_graphs",),
    "tensorflow.python.eager.polymorphic_function.polymorphic_function": ("steps.patches:count_tf_functions",),
    "keras.src.backend.tensorflow.trainer": ("steps.patches:count_train_on_batch",),
    "keras.src.callbacks.callback_list": ("steps.patches:count_fit",),
    "tf_keras.src.callbacks": ("steps.patches:count_fit",),
    "tf_keras.src.engine.training": ("steps.patches:count_train_on_batch",),
}
PATCHES = {name: (*STEPS.get(name, ()), *SAVES.get(name, ())) for name in (*STEPS, *SAVES)}
_LOST = {
    "steps.gradients": "it cannot be seen where this program takes gradients",
    "steps.patches": "the training steps of this program cannot be counted",
    "saves.saving": "the saves of this program cannot be recorded",
}

_said: list[str] = []
_name: list[str] = []


class _Watcher(importlib.abc.MetaPathFinder):
    """Patches each of these modules right after its import."""

    def __init__(self, patches: Mapping[str, Sequence[str]]) -> None:
        self._waiting = dict(patches)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._waiting:
            return None
        names = self._waiting.pop(fullname)
        spec = importlib.util.find_spec(fullname)  # by the other finders; this one is done with the name
        if spec is None or spec.loader is None:
            return spec
        run_module = spec.loader.exec_module

        def run_and_patch(module: ModuleType) -> None:
            run_module(module)
            for name in names:
                patch(name, module)

        spec.loader.exec_module = run_and_patch  # type: ignore[method-assign]
        return spec


class _Home(importlib.abc.MetaPathFinder):
    """Finds the package `simulator` of the run, if the program finds no other, and what that one needs."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in ("simulator", "_lockstep"):
            return None
        return importlib.machinery.PathFinder.find_spec(fullname, [os.environ["LOCKSTEP_HOME"]])


def watch(patches: Mapping[str, Sequence[str]]) -> None:
    """Patch these modules as soon as they are imported, in this process and those that it forks.

    Args:
        patches: names of modules, and for each one the functions of `simulator.agent.steps` to call with it.
    """
    sys.meta_path.insert(0, _Watcher(patches))


def patch(name: str, module: ModuleType) -> None:
    """Call a function of `simulator.agent`, `PLACE:NAME`, with a module that has been imported."""
    place, _, function = name.partition(":")
    try:
        getattr(importlib.import_module(f"{_simulator()}.agent.{place}"), function)(module)
    except Exception as error:  # noqa: BLE001 - the program must not notice
        _say(f"{_LOST[place]}: {type(error).__name__}: {error}")


def _simulator() -> str:
    """The name by which this process has the package `simulator` of the run: another where the program has its own."""
    if not _name:
        from _lockstep import names, private

        theirs = "LOCKSTEP_AGENT" in os.environ and names.stranger("simulator")
        if theirs:
            private.offer_private()
        _name.append(private.PRIVATE if theirs else "simulator")
    return _name[0]


def _say(text: str) -> None:
    if text in _said:
        return
    _said.append(text)
    sys.stderr.write(f"lockstep: {text}\n")


def answer_stacks() -> None:
    """SIGUSR2 writes all stacks into the task's file, in the process that leads the task's group."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        _answer_into(json.loads(os.environ["LOCKSTEP_AGENT"])["stacks"])


def _answer_into(path: str) -> None:
    if os.getpid() == os.getpgrp():
        stacks = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        faulthandler.register(signal.SIGUSR2, file=stacks, all_threads=True, chain=False)


def _run_other_sitecustomize() -> None:
    """The one that Python would have run without this directory on its path."""
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]  # noqa: PTH100 - as above
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _begin() -> None:
    watch(PATCHES)
    sys.meta_path.append(_Home())
    answer_stacks()


if __name__ == "sitecustomize" and "LOCKSTEP_AGENT" in os.environ:
    _begin()
    _run_other_sitecustomize()
