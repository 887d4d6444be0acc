"""Where Python is when it makes an operation: in which replica or update, and at which lines."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
import threading
from dataclasses import dataclass
from pathlib import Path

from harness.evidence.watched_step import OUTER, REPLICA, UPDATE, Frame
from simulator.agent.places import place

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

# Files that AutoGraph writes, where TensorFlow has no lines of the program instead.
_CONVERTED = "__autograph_generated_file"
# Functions of the noise that call those of TensorFlow which they stand for; all others make operations of their own.
AROUND = (
    *("assign", "call", "cast", "create", "creator", "execute", "gradient", "measuring", "multiplied", "noting"),
    *("reduce", "reduce_to", "scan", "summed"),
)

BY_BATCHES = "lockstep_by_batches"
"""The name scope of what one replica does for the batch of each, and a replica once. TensorFlow names the gradients of
what is made in it after it too.
"""

BY_PYTHON = "lockstep_python"
"""The name, or name scope, of operations that stand for the program's own Python, which a graph calls.

Each has what it stands for as its operand of the same place.
"""

LAMBDA = "<lambda>"
"""What AutoGraph gives no name."""

_Stack = tuple[tuple[str, int, str], ...]


@dataclass(frozen=True)
class CodePlace:
    """What `Watched.frames` and an `Op` say of one stack."""

    frames: tuple[int, ...]
    caller: int | None
    differentiates: bool
    # Made by the harness itself, such as noise.
    ours: bool


class Places:
    """Turns stacks into places, and keeps each frame once."""

    def __init__(self) -> None:
        self._tensorflow = _folder("tensorflow")
        self._keras = tuple(_folder(name) for name in ("keras", "tf_keras") if importlib.util.find_spec(name))
        self._distribute = f"{Path(self._tensorflow) / 'python' / 'distribute'}{os.sep}"
        self._harness = str(Path(__file__).parents[2]) + os.sep
        self._noise = str(Path(__file__).parents[1] / "noise") + os.sep
        simulator = str(Path(__file__).parents[3] / "simulator") + os.sep
        own = str(Path(__file__).parents[3] / "_lockstep") + os.sep
        installed = tuple({sysconfig.get_paths()[key] + os.sep for key in ("stdlib", "platstdlib")})
        self._foreign = (self._tensorflow, *self._keras, self._harness, simulator, own, *installed, "<")
        self._numbers: dict[Frame, int] = {}
        self._owned: dict[str, bool] = {}
        self._lines: dict[tuple[str, int], tuple[str, int, str]] = {}
        self._known: dict[tuple[_Stack, int | None], CodePlace] = {}
        # Site-packages lie within the standard library's folder; who wrote a package there wrote it for the program.
        self._packages = tuple({sysconfig.get_paths()[key] + os.sep for key in ("purelib", "platlib")})

    @property
    def frames(self) -> tuple[Frame, ...]:
        """All of them, by their numbers."""
        return tuple(self._numbers)

    def here(self) -> CodePlace:
        """The place of the operation that this thread is making."""
        from tensorflow.python.util import tf_stack

        # As TensorFlow keeps it with an operation, outermost frame first: with the lines of what AutoGraph converted.
        found = tf_stack.extract_stack(stacklevel=1)
        stack = tuple(self.written(frame.filename, frame.lineno, frame.name) for frame in found)
        other = self.other()
        if (stack, other) not in self._known:
            self._known[stack, other] = self._place(stack, other)
        return self._known[stack, other]

    def line(self) -> str | None:
        """The program's own line at which this thread is, its file as from where the program was started."""
        if (caller := self.here().caller) is None:
            return None
        frame, here = self.frames[caller], Path.cwd()
        file = Path(frame.file)
        return place(str(file.relative_to(here) if file.is_relative_to(here) else file), frame.line)

    def written(self, file: str, line: int, function: str) -> tuple[str, int, str]:
        """The line of the program that AutoGraph has made a line of, any other line as it is.

        TensorFlow does the same for what the thread itself has converted, and a function within a function that another
        thread has converted is not that.
        """
        if _CONVERTED not in file:
            return file, line, function
        from tensorflow.python.util import tf_stack

        if (file, line) not in self._lines:
            for mappers in list(tf_stack._source_mapper_stacks.values()):  # noqa: SLF001 - of other threads
                self._lines.update(mappers[-1].get_effective_source_map())
        found = self._lines.get((file, line), (file, line, function))
        return found if found[2] else (*found[:2], LAMBDA)

    def caller(self) -> int | None:
        """The innermost line of the program's own at which this thread is."""
        return self._in(threading.get_ident())

    def other(self) -> int | None:
        """The line of the program's own that waits for this thread, where it is not this thread's own.

        Replicas run in threads that do not know who started them. What they ask for together, such as a sum over all of
        them, is done by the thread that waits for them, while they wait for it.
        """
        main, this = threading.main_thread(), threading.current_thread()
        number = getattr(this, "replica_id", None)
        same = [thread for thread in threading.enumerate() if getattr(thread, "replica_id", None) == (number or 0)]
        # A replica asks all for what runs replicas in their turn, as the LossScaleOptimizer of Keras 3 does.
        waiting = [thread for thread in same if thread is not this]
        if waiting:
            return self._in(waiting[-1].ident or 0)
        return None if this is main else self._in(main.ident or 0)

    def _in(self, thread: int) -> int | None:
        frame = sys._current_frames().get(thread)  # noqa: SLF001 - documented so
        while frame is not None:
            at = self.written(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            if self.is_own(at[0]):
                return self._number(Frame(*at, own=True))
            frame = frame.f_back
        return None

    def _place(self, stack: _Stack, other: int | None) -> CodePlace:
        begin = 0
        merged = False
        ours = differentiates = False
        for position, (file, _, function) in enumerate(stack):
            base = file.rpartition(os.sep)[2]
            if file.startswith(self._distribute) and base in _BOUNDARIES:
                begin = position + 1
                merged = merged or base == "mirrored_run.py"
            elif file.startswith(self._tensorflow) and base in _DIFFERENTIATING and function != "watch_accessed":
                differentiates = True
            elif file.startswith(self._noise) and function not in AROUND:
                ours = True
        inner = [
            self._number(Frame(file, line, function, self.is_own(file)))
            for file, line, function in stack[begin:]
            if not file.startswith((self._tensorflow, self._harness))
        ]
        callers = [frame for frame in stack if self.is_own(frame[0])]
        caller = self._number(Frame(*callers[-1], own=True)) if callers else None
        if other is not None and (caller is None or (merged and threading.current_thread() is threading.main_thread())):
            caller = other
        return CodePlace(tuple(inner), caller, differentiates, ours)

    def is_own(self, file: str) -> bool:
        """Whether a file is the program's own."""
        if file not in self._owned:
            self._owned[file] = self._owns(file)
        return self._owned[file]

    def is_installed(self, file: str) -> bool:
        """Whether a file is of an installed package."""
        return file.startswith(self._packages)

    def is_keras(self, file: str) -> bool:
        """Whether a file is of Keras 3 or of tf_keras."""
        return file.startswith(self._keras)

    def is_harness(self, file: str) -> bool:
        """Whether a file is of the harness."""
        return file.startswith(self._harness)

    def _owns(self, file: str) -> bool:
        if Path(file).name.startswith(_CONVERTED):
            return False
        if file.startswith(self._packages):
            return not file.startswith((self._tensorflow, *self._keras, self._harness))
        return not file.startswith(self._foreign)

    def _number(self, frame: Frame) -> int:
        return self._numbers.setdefault(frame, len(self._numbers))


def _folder(package: str) -> str:
    spec = importlib.util.find_spec(package)
    return str(Path((spec and spec.origin) or package).parent) + os.sep


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
