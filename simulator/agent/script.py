"""The process of a task becomes a Python script, in a fork of one that has imported TensorFlow already."""

from __future__ import annotations

import atexit
import ctypes
import importlib.abc
import importlib.machinery
import io
import logging
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from _lockstep.children import PRELOAD
from simulator.agent.process import fresh_signals, join_no_one, redirect_output, renew_modules, without_input
from simulator.agent.program import TaskProgram
from simulator.agent.site import sitecustomize as site

# Not to be seen until the script imports one of them.
_HIDDEN = ("tensorflow", "keras", "tf_keras", "harness")
_NEEDED_AT_END = {"sys", "builtins", "__main__"}
# By the forkserver.
_imported: set[str] = set()


def become_script(script: TaskProgram) -> NoReturn:
    """Run it as `python FILE`, or `python -m MODULE`, does; called in the forked process, and never returns.

    Args:
        script: its `argv` is what stands after `python`: its file, or `-m` and its module, and arguments.
    """
    join_no_one()
    fresh_signals(python=True)
    redirect_output(script.log)
    without_input()
    os.chdir(script.cwd)
    os.environ.clear()
    os.environ.update(script.environ)
    _imported.update(sys.modules)
    _renew_streams()
    renew_modules()
    if (process := sys.modules.get("multiprocessing.process")) is not None:
        vars(process)["ORIGINAL_DIR"] = os.path.abspath(os.curdir)  # noqa: PTH100 - as Python has it
    is_module = script.argv[0] == "-m"
    sys.argv = [script.argv[0], *script.argv[2 if is_module else 1 :]]
    sys.path[:] = _path(Path.cwd() if is_module else Path(script.argv[0]).resolve().parent)
    _Hidden.hide()
    site.answer_stacks()
    code = _run(script.argv[1] if is_module else "", os.path.abspath(script.argv[0]))  # noqa: PTH100 - as Python has it
    # Nothing of the script is held from here on: what it holds itself is let go as Python ends.
    if isinstance(code, KeyboardInterrupt):
        _end_by(signal.SIGINT)
    _leave(code)


def _run(module: str, file: str) -> object:
    """Run a module, or else a file, as `__main__`; what it ends with."""
    main = _main(file)
    try:
        if module:
            runpy._run_module_as_main(module)  # type: ignore[attr-defined]  # noqa: SLF001 - what Python calls
        else:
            with io.open_code(file) as source:
                code = compile(source.read(), file, "exec")
            exec(code, main.__dict__)  # noqa: S102 - the script that was asked for
    except SystemExit as end:
        return end.code
    except BaseException as error:  # noqa: BLE001 - whatever it raises
        _show(error, error.__traceback__ and error.__traceback__.tb_next)
        return KeyboardInterrupt() if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _main(whole: str) -> ModuleType:
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=whole,
        __builtins__=sys.modules["builtins"],
        __loader__=importlib.machinery.SourceFileLoader("__main__", whole),
        __package__=None,
        __spec__=None,
        __cached__=None,
        __annotations__={},
    )
    sys.modules["__main__"] = main
    return main


def _path(first: Path) -> list[str]:
    """Where the script finds modules: its folder, what PYTHONPATH says, and what this interpreter has found itself."""
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    mine = [os.path.abspath(entry) for entry in given]  # noqa: PTH100 - as Python has it
    return list(dict.fromkeys([str(first), *mine, *sys.modules[PRELOAD].of_interpreter()]))


def _renew_streams() -> None:
    """The streams as Python makes them at its start (`create_stdio` in its pylifecycle.c)."""
    encoding, errors = sys.stdout.encoding, {1: sys.stdout.errors, 2: sys.stderr.errors}
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        raw = io.FileIO(number, "w" if number else "r", closefd=False)
        raw.name = f"<{name}>"
        whole: Any = io.BufferedReader(raw) if not number else raw if unbuffered else io.BufferedWriter(raw)
        by_line = number == 2 and not unbuffered
        stream: Any = io.TextIOWrapper(whole, encoding, errors[number or 1], None, by_line, unbuffered)
        stream.mode = raw.mode[0]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class _Hidden(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """TensorFlow and Keras are there, and are imported when the script does so: what that brings about happens then."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self._modules = modules
        self._specs: dict[str, importlib.machinery.ModuleSpec | None] = {}

    @classmethod
    def hide(cls) -> None:
        """Hide them, and what only Lockstep has imported."""
        names = [name for name in sys.modules if name.partition(".")[0] in _HIDDEN]
        found = {name: sys.modules.pop(name) for name in names}
        modules = {name: module for name, module in found.items() if not name.startswith("harness")}
        site.watch({name: each for name, each in site.STEPS.items() if name not in modules})
        sys.meta_path[:] = [each for each in sys.meta_path if not type(each).__module__.startswith("_lockstep")]
        sys.meta_path.insert(0, cls(modules))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Show all of them at the first import of one, unless the script has another one on its path by now."""
        if fullname not in self._modules:
            return None
        sys.meta_path.remove(self)
        other = importlib.machinery.PathFinder.find_spec(fullname)
        own = self._modules[fullname].__spec__
        if other is not None and own is not None and other.origin != own.origin:
            site.watch({name: patches for name, patches in site.PATCHES.items() if name in self._modules})
            return None
        sys.modules.update({name: module for name, module in self._modules.items() if name != fullname})
        self._specs[fullname] = self._modules[fullname].__spec__
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The one that is there."""
        return self._modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run again; who looks at steps begins to do so."""
        module.__spec__ = self._specs[module.__name__]
        for name, patches in sorted(site.STEPS.items(), key=lambda each: each[0] == "tensorflow"):
            for patch in patches if name in self._modules else ():
                site.patch(patch, self._modules[name])


def _show(error: BaseException, frames: TracebackType | None) -> None:
    """As Python does with what nobody has caught, without the frame of this file."""
    try:
        sys.excepthook(type(error), error.with_traceback(frames), frames)
    except Exception:  # noqa: BLE001 - a hook of the script's
        traceback.print_exc()


def _leave(code: object) -> NoReturn:
    """End as Python does: threads are joined, exit handlers run, and what the script has made is let go.

    What its forkserver has imported is not: taking it apart would copy the memory that all tasks share.
    """
    number = 0 if code is None else code if isinstance(code, int) else 1
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
    python = ctypes.pythonapi
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - what Python calls first at its end
    atexit._run_exitfuncs()  # noqa: SLF001 - and then
    logging.raiseExceptions = False  # what is let go may log, to a stream that is closed by then
    shared = {name: sys.modules.pop(name) for name in _imported - _NEEDED_AT_END if name in sys.modules}
    python.Py_IncRef(ctypes.py_object(shared))
    python.Py_Exit(ctypes.c_int(number))
    os._exit(number)


def _end_by(number: int) -> NoReturn:
    """End by a signal, as Python does where nobody has caught Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)
