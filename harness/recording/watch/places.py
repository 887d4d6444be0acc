"""Where Python is when it makes an operation: in which replica or update, and at which lines."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.evidence.watched import OUTER, REPLICA, UPDATE, Frame

__all__ = ["Places", "zone"]

# Frames of these files begin the function of a replica or of an update: what called them differs between strategies.
_BOUNDARIES = (
    "distribute_lib.py",
    "mirrored_run.py",
    "mirrored_strategy.py",
    "collective_all_reduce_strategy.py",
    "one_device_strategy.py",
    "parameter_server_strategy_v2.py",
)
_DIFFERENTIATING = ("backprop.py", "gradients_util.py", "imperative_grad.py")

# Functions of the noise that call those of TensorFlow which they stand for; all others make operations of their own.
_AROUND = ("call", "cast", "create", "creator", "execute", "gradient", "reduce", "reduce_to", "scan", "summed")


@dataclass(frozen=True)
class Place:
    """What `Watched.frames` and an `Op` say of one stack."""

    frames: tuple[int, ...]
    caller: int | None
    differentiates: bool
    # Made by the harness itself, such as noise.
    ours: bool


class Places:
    """Turns stacks into places, and keeps each frame once."""

    def __init__(self) -> None:
        import keras
        import tensorflow as tf

        self._tensorflow = _folder(tf)
        kerases = [_folder(keras)]
        try:
            import tf_keras
        except ImportError:
            pass
        else:
            kerases.append(_folder(tf_keras))
        self._keras = tuple(kerases)
        self._distribute = f"{Path(self._tensorflow) / 'python' / 'distribute'}{os.sep}"
        self._harness = str(Path(__file__).parents[2]) + os.sep
        self._noise = str(Path(__file__).parents[1] / "noise") + os.sep
        simulator = str(Path(__file__).parents[3] / "simulator") + os.sep
        own = str(Path(__file__).parents[3] / "_lockstep") + os.sep
        installed = tuple({sysconfig.get_paths()[key] + os.sep for key in ("stdlib", "platstdlib")})
        self._foreign = (self._tensorflow, *self._keras, self._harness, simulator, own, *installed, "<")
        self._numbers: dict[Frame, int] = {}
        self._known: dict[tuple[tuple[str, int, str], ...], Place] = {}
        # Site-packages lie within the standard library's folder; who wrote a package there wrote it for the program.
        self._packages = tuple({sysconfig.get_paths()[key] + os.sep for key in ("purelib", "platlib")})

    @property
    def frames(self) -> tuple[Frame, ...]:
        """All of them, by their numbers."""
        return tuple(self._numbers)

    def place(self, stack: Iterable[Any]) -> Place:
        """The place of a stack as TensorFlow keeps it with an operation, outermost frame first."""
        key = tuple((frame.filename, frame.lineno, frame.name) for frame in stack)
        if key not in self._known:
            self._known[key] = self._place(key)
        return self._known[key]

    def _place(self, stack: tuple[tuple[str, int, str], ...]) -> Place:
        begin = 0
        ours = differentiates = False
        for position, (file, _, function) in enumerate(stack):
            base = Path(file).name
            if file.startswith(self._distribute) and base in _BOUNDARIES:
                begin = position + 1
            elif file.startswith(self._tensorflow) and base in _DIFFERENTIATING and function != "watch_accessed":
                differentiates = True
            elif file.startswith(self._noise) and function not in _AROUND:
                ours = True
        inner = [
            self._number(Frame(file, line, function, self._is_own(file)))
            for file, line, function in stack[begin:]
            if not file.startswith((self._tensorflow, self._harness))
        ]
        callers = [frame for frame in stack if self._is_own(frame[0])]
        caller = self._number(Frame(*callers[-1], own=True)) if callers else None
        return Place(tuple(inner), caller, differentiates, ours)

    def _is_own(self, file: str) -> bool:
        if file.startswith(self._packages):
            return not file.startswith((self._tensorflow, *self._keras, self._harness))
        return not file.startswith(self._foreign)

    def _number(self, frame: Frame) -> int:
        return self._numbers.setdefault(frame, len(self._numbers))


def _folder(package: Any) -> str:
    return str(Path(package.__file__).parent) + os.sep


def zone() -> tuple[str, int]:
    """In which replica, or in the update of which copy, this thread is now."""
    from tensorflow.python.distribute import distribute_lib

    if (copy := distribute_lib.get_update_replica_id()) is not None:
        return UPDATE, copy if isinstance(copy, int) else 0
    mode = distribute_lib._get_per_thread_mode()  # noqa: SLF001 - the public function cannot tell a default context
    context = mode.replica_context
    if context is None or isinstance(mode, distribute_lib._DefaultReplicaThreadMode):  # noqa: SLF001
        return OUTER, 0
    number = context._replica_id_in_sync_group  # noqa: SLF001 - the public property makes an op of it
    return REPLICA, number if isinstance(number, int) else 0
