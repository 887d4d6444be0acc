"""In a client task: notes which files the program reads and writes, so that runs which see each other's are found out.

Python's own opening of files is heard by an audit hook, whoever calls it: `open`, NumPy, pickle, Keras's own format.
TensorFlow and HDF5 read and write in C++, so the calls that lead there are wrapped. Not seen are files of other
programs that this one starts, and what is only asked for (`os.path.exists`). A note is written at once: a process that
is killed keeps its notes. Whatever goes wrong in here never reaches the program.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import time  # bound now: the program's clock may be moved
from typing import Any

import msgspec

from _lockstep.names import HOME
from harness.evidence.independence import Touch

_NOTES_MAX = 100_000
# By their purpose: what one process leaves there is what another would have made or fetched by itself.
_CACHES = ("~/.cache", "~/.keras", "~/tensorflow_datasets")
_CACHE_VARIABLES = ("XDG_CACHE_HOME", "KERAS_HOME", "TFDS_DATA_DIR", "HF_HOME")
_SYSTEM = ("/dev", "/proc", "/sys")
_CHANGES = ("os.mkdir", "os.remove", "os.rmdir", "os.symlink", "os.truncate", "shutil.rmtree")
_OUTSIDE = ("subprocess.Popen", "os.system", "os.posix_spawn", "socket.bind")
"""Events of Python's by which files are changed without being opened, and by which more is changed than files."""
_ENCODER = msgspec.json.Encoder()
_APART = (
    *(os.path.join(HOME, name, "") for name in ("_lockstep", "harness", "simulator")),  # noqa: PTH118 - text
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
)
"""Installed files, which their versions stand for, and Lockstep's own."""


def _files_of(names: Iterable[str]) -> Iterator[str]:
    """The files of modules that are the project's."""
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(file, str) and not file.startswith(_APART):
            yield file


# A look at each of the thousands of modules that a forkserver has imported would have each task copy their memory.
_LAST = next(reversed(sys.modules))
_EARLIER = tuple(_files_of(list(sys.modules)))


def note_files(notes: Path, ours: Iterable[Path], until: Callable[[], None] = lambda: None) -> Callable[[], None]:
    """From now on, append to `notes` what this process reads and writes, except below `ours` and where caches belong.

    Args:
        notes: the file, see `harness.evidence.independence`.
        ours: folders that belong to this run alone.
        until: is called before anything else is changed, and comes back when that may be done.

    Returns:
        What notes the files of the project's modules as read: most are imported from their compiled form.
    """
    temporary = tempfile.gettempdir() if "TMPDIR" in os.environ else None  # which the run has made for its tasks
    homes = [os.environ[name] for name in _CACHE_VARIABLES if os.environ.get(name)]
    left_out = [*map(str, ours), *_SYSTEM, *map(os.path.expanduser, _CACHES), *homes]
    if temporary is not None:
        left_out.append(temporary)
    touched = _Touched(notes, left_out, until)
    sys.addaudithook(touched.hear)
    with contextlib.suppress(ImportError, AttributeError):  # of another version
        _wrap_tensorflow(touched)
    with contextlib.suppress(ImportError, AttributeError):
        _wrap_hdf5(touched)
    from simulator.agent.saves.saves import listen

    listen(touched.saved, touched.will_save)
    return touched.modules


class _Touched:
    """The notes of this process, and of those that it forks."""

    def __init__(self, notes: Path, left_out: Iterable[str], until: Callable[[], None] = lambda: None) -> None:
        self._file = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._left_out = tuple(os.path.join(os.path.realpath(place), "") for place in left_out)  # noqa: PTH118 - text
        self._written: set[str] = set()
        self._read: set[str] = set()
        self._notes = 0
        self._until = until
        self._busy = threading.local()

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        """The audit hook."""
        if event == "open" and len(args) == 3:
            path, mode, flags = args
            reads, writes = _of_flags(flags) if mode is None else _of_mode(str(mode))
            self.note(path, reads=reads, writes=writes)
        elif event in ("os.rename", "os.link"):
            self.note(args[1], writes=True)
        elif event in _CHANGES:
            self.change(args[0])
        elif event in _OUTSIDE:
            self.change()

    def saved(self, path: Any, restores: bool) -> None:
        """A save or restore of TensorFlow or Keras."""
        self.note(path, reads=restores, writes=not restores)

    def will_save(self, path: Any, restores: bool) -> None:
        """A save or restore of TensorFlow or Keras is about to begin."""
        if not restores:
            self.change(path)

    def change(self, path: Any = None) -> None:
        """Something is about to be changed that is not noted: at a path, or nobody knows where."""
        if getattr(self._busy, "here", False) or isinstance(path, int):
            return
        self._busy.here = True
        try:
            if not (
                isinstance(path, (str, bytes, os.PathLike)) and self._is_left_out(os.path.realpath(os.fsdecode(path)))
            ):
                self._until()
        finally:
            self._busy.here = False

    def _is_left_out(self, full: str) -> bool:
        return f"{full}/".startswith(self._left_out)

    def modules(self) -> None:
        """The files of all modules that are the project's."""
        later = itertools.takewhile(lambda name: name != _LAST, reversed(list(sys.modules)))
        for file in (*_EARLIER, *_files_of(later)):
            self.note(file, reads=True)

    def note(self, path: Any, *, reads: bool = False, writes: bool = False) -> None:
        """Note one access. Of a file that does not exist, or is empty as a lock is, nothing is read."""
        if not isinstance(path, (str, bytes, os.PathLike)) or getattr(self._busy, "here", False):
            return  # a file descriptor, or a tensor
        self._busy.here = True
        try:
            self._note(os.fsdecode(path), reads, writes)
        except Exception:  # noqa: BLE001 - the program must not notice
            return
        finally:
            self._busy.here = False

    def _note(self, text: str, reads: bool, writes: bool) -> None:
        full = os.path.realpath(text)
        compiled = "__pycache__" in full or full.endswith(".pyc")
        # A nameless file is opened by the name of its folder.
        if compiled or self._is_left_out(full) or "://" in text or self._notes >= _NOTES_MAX:
            return
        if writes:
            self._until()
        # What it only reads, it reads as often as it likes; between reads of what it writes, another may have written.
        if reads and (full in self._written or full not in self._read) and _holds_something(full):
            self._read.add(full)
            self._append(Touch(full, time(), writes=False))
        if writes:
            self._written.add(full)
            self._append(Touch(full, time(), writes=True))

    def _append(self, touch: Touch) -> None:
        self._notes += 1
        os.write(self._file, _ENCODER.encode(touch) + b"\n")


def _of_mode(mode: str) -> tuple[bool, bool]:
    """Whether a file opened so may give what was in it before, and whether it may be changed."""
    return "r" in mode or "a+" in mode.replace("b", "").replace("t", ""), any(letter in mode for letter in "wax+")


def _of_flags(flags: int) -> tuple[bool, bool]:
    access = flags & os.O_ACCMODE
    return access in (os.O_RDONLY, os.O_RDWR) and not flags & os.O_TRUNC, access in (os.O_WRONLY, os.O_RDWR)


def _holds_something(path: str) -> bool:
    """Whether there is this file or folder, or a checkpoint with this prefix; an empty file has no state."""
    if os.path.isfile(path):  # noqa: PTH113 - text
        return os.path.getsize(path) > 0  # noqa: PTH202 - text
    return os.path.isdir(path) or os.path.exists(f"{path}.index")  # noqa: PTH110, PTH112 - text


def _wrap(owner: Any, name: str, note: Callable[..., None]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original, updated=())
    def noted(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):  # arguments that it does not have are for the original to refuse
            note(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, noted)


def _wrap_tensorflow(touched: _Touched) -> None:
    import tensorflow as tf
    from tensorflow.python.lib.io import _pywrap_file_io
    from tensorflow.python.training import py_checkpoint_reader

    def reads(path: Any, *_: Any, **__: Any) -> None:
        touched.note(_text(path), reads=True)

    def writes(path: Any, *_: Any, **__: Any) -> None:
        touched.note(_text(path), writes=True)

    def moves(_: Any, path: Any, *__: Any) -> None:
        touched.note(_text(path), writes=True)

    def copies(source: Any, path: Any, *_: Any) -> None:
        reads(source)
        writes(path)

    def caches(_: Any, filename: Any = "", *__: Any, **___: Any) -> None:
        path = _text(filename)
        touched.note(path or None, reads=True, writes=bool(path) and not _holds_something(path))

    def saves(_: Any, path: Any, *__: Any, **___: Any) -> None:
        writes(path)

    for name in ("CreateDir", "RecursivelyCreateDir", "DeleteFile", "DeleteRecursively"):
        _wrap(_pywrap_file_io, name, lambda path, *_, **__: touched.change(_text(path)))
    _wrap(_pywrap_file_io, "BufferedInputStream", reads)
    _wrap(_pywrap_file_io, "WritableFile", writes)
    _wrap(_pywrap_file_io, "RenameFile", moves)
    _wrap(_pywrap_file_io, "CopyFile", copies)
    _wrap(py_checkpoint_reader, "NewCheckpointReader", reads)
    _wrap(tf.io, "read_file", reads)
    _wrap(tf.io, "write_file", writes)
    _wrap(tf.io.TFRecordWriter, "__init__", saves)
    _wrap(tf.data.Dataset, "save", saves)
    _wrap(tf.data.Dataset, "cache", caches)
    load = tf.data.Dataset.load

    @functools.wraps(load)
    def noted_load(path: Any, *args: Any, **kwargs: Any) -> Any:
        reads(path)
        return load(path, *args, **kwargs)

    tf.data.Dataset.load = staticmethod(noted_load)


def _text(path: Any) -> Any:
    """The path that a tensor holds; of a tensor without a value, itself."""
    if hasattr(path, "numpy"):
        path = path.numpy()
    return path


def _wrap_hdf5(touched: _Touched) -> None:
    import h5py  # type: ignore[import-untyped]

    def opens(_: Any, name: Any, mode: str = "r", *__: Any, **___: Any) -> None:
        touched.note(name, reads=mode in ("r", "r+", "a"), writes=mode != "r")

    _wrap(h5py.File, "__init__", opens)
