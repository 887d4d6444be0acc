"""In a task: a gate before each file that it opens to write, renames or removes, below one directory.

Python says so to its audit hooks (PEP 578), and TensorFlow's file system is called through one module of its own. What
ops and libraries in C write is seen by neither: shards of a checkpoint, which have phases of their own, and HDF5.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

Gate = Callable[..., object]
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OF_PYTHON = {"open": "write", "os.rename": "rename", "os.remove": "remove", "shutil.rmtree": "remove"}
_OF_TENSORFLOW = {
    "WritableFile": "write",
    "RenameFile": "rename",
    "CopyFile": "write",
    "DeleteFile": "remove",
    "DeleteRecursively": "remove",
}
# What a name has of chance, as that of the file which becomes `checkpoint`.
_CHANCE = re.compile(r"(?<=tmp)[0-9a-z_]{8,}")


class _Here(threading.local):
    # Whether this thread is in a gate, which may touch files itself.
    inside = False


_here = _Here()


def watch(directory: str, gate: Gate) -> None:
    """From now on have `gate` called with what is about to be done, as `write saves/checkpoint`."""
    root, process = os.path.realpath(directory or "."), os.getpid()

    def come(verb: str, *paths: Any) -> None:
        if _here.inside or os.getpid() != process:
            return
        names = [os.path.realpath(os.fsdecode(path)) for path in paths if isinstance(path, (str, bytes, os.PathLike))]
        if not names or not names[0].startswith(f"{root}{os.sep}"):
            return
        names = [name for name in names if name.startswith(f"{root}{os.sep}")]
        _here.inside = True
        try:
            gate(verb, *(_CHANCE.sub("*", name[len(root) + 1 :]) for name in names))
        finally:
            _here.inside = False

    def hear(event: str, args: tuple[Any, ...]) -> None:
        verb = _OF_PYTHON.get(event)
        if verb is not None and (event != "open" or _is_to_write(args)) and not _is_relative(event, args):
            come(verb, *_paths(verb, args))

    sys.addaudithook(hear)
    if "tensorflow" in sys.modules:  # else it is no training with TensorFlow
        _watch_tensorflow(come)


def _paths(verb: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the operation is done to: of two names the one that comes to be first."""
    return (args[1], args[0]) if verb == "rename" else args[:1]


def _is_to_write(args: tuple[Any, ...]) -> bool:
    flags = args[2] if len(args) > 2 else 0
    return isinstance(flags, int) and bool(flags & _WRITES)


def _is_relative(event: str, args: tuple[Any, ...]) -> bool:
    """Whether the path counts from an open directory, as within `shutil.rmtree`, which has an event of its own."""
    return event == "os.remove" and len(args) > 1 and args[1] not in (-1, None)


def _watch_tensorflow(come: Callable[..., None]) -> None:
    from tensorflow.python.lib.io import file_io

    class Functions:
        """TensorFlow's functions, those that change files behind a gate; only `file_io` has them from here."""

        def __getattr__(self, name: str) -> Any:
            return getattr(original, name)

    def gated(name: str, verb: str) -> Callable[..., Any]:
        @functools.wraps(getattr(original, name))
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            come(verb, *_paths(verb, args) if name != "CopyFile" else args[1:2])
            return getattr(original, name)(*args, **kwargs)  # who notes files may have wrapped it since

        return wrapped

    original = file_io._pywrap_file_io  # noqa: SLF001 - the one place where all of them are called
    functions = Functions()
    for name, verb in _OF_TENSORFLOW.items():
        if hasattr(original, name):
            setattr(functions, name, gated(name, verb))
    file_io._pywrap_file_io = functions  # noqa: SLF001 - see above
