"""Which commands start from a forkserver that has imported TensorFlow, as functions do.

Importing TensorFlow costs each Python two seconds and 240 MB. A script that imports it at its top, and is run by the
Python that Lockstep runs in, is forked from a process that has it, and shares its memory with the others. It sees what
`python FILE` sees; what cannot be so is started as from a shell.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from _lockstep.names import PACKAGES
from simulator.launch.before_import import Before, before_tensorflow
from simulator.launch.forkserver import DEFAULT_PRELOAD, at_import

MODULE = "-m"
FRESH = "LOCKSTEP_FRESH"
"""A variable by which every command is started as from a shell."""
# Options that change nothing of what a script computes, and that one process may have and its forkserver not.
HARMLESS = ("-u", "-B")
# What is read when Python starts; a forkserver has that of its parent.
_OF_PYTHON = ("LD_", "PYTHON", "MALLOC_", "GLIBC_")
_SAME = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True)
class Preloaded:
    """A command that is forked.

    Attributes:
        argv: as its `sys.argv` is to be, beginning with the file, or with `-m` and the module.
        modules: that the forkserver has imported.
        variables: of the forkserver's environment, which count when it imports them.
    """

    argv: tuple[str, ...]
    modules: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]


def preloaded(argv: Sequence[str], cwd: str, environ: Mapping[str, str]) -> Preloaded | None:
    """How a command is forked; None where it is started as from a shell.

    Args:
        argv: the command.
        cwd: where it runs.
        environ: in which.
    """
    rest = argv[1:]
    while rest and rest[0] in HARMLESS:
        rest = rest[1:]
    files = _files(rest, cwd)
    if environ.get(FRESH) or not files or not _is_this_python(argv[0], environ) or _has_other_start(environ):
        return None
    folder = Path(cwd) if rest[0] == MODULE else files[-1].parent
    if _has_others(folder, environ):
        return None
    try:
        read = [_read(file, environ) for file in files]
        if any(map(_may_set, _beside(folder, {name for each in read for name in each.modules}, environ))):
            return None
    except (OSError, SyntaxError, ValueError):  # Python says so
        return None
    if not all(each.whole for each in read) or not any(each.imports for each in read):
        return None
    # All that the script sets, since nobody knows what of it a library reads when it is imported.
    told = {name: value for each in read for name, value in each.variables.items() if not name.startswith(_OF_PYTHON)}
    variables = dict(at_import(environ)) | told
    return Preloaded(tuple(rest), DEFAULT_PRELOAD, tuple(sorted(variables.items())))


def _read(file: Path, environ: Mapping[str, str]) -> Before:
    return before_tensorflow(ast.parse(file.read_bytes()), environ)


def _may_set(module: Before) -> bool:
    """Whether a module of the script's own does what has to be done before TensorFlow is imported, or imports it."""
    return bool(module.variables) or not module.whole or module.imports


def _beside(folder: Path, names: set[str], environ: Mapping[str, str]) -> Iterator[Before]:
    """The modules of these names that lie beside the script, and those that they import from there."""
    waiting, seen = sorted(names), set(names)
    while waiting:
        name = waiting.pop()
        for file in (folder / f"{name}.py", folder / name / "__init__.py"):
            if file.is_file():
                yield (found := _read(file, environ))
                waiting += sorted(found.modules - seen)
                seen |= found.modules


def _files(rest: Sequence[str], cwd: str) -> list[Path]:
    """The files that Python runs one after another, the script last; none of another command."""
    if not rest or (rest[0] == MODULE and len(rest) == 1):
        return []
    if rest[0] != MODULE:
        script = Path(cwd, rest[0])
        return [script] if script.suffix == ".py" and script.is_file() else []
    *packages, last = rest[1].split(".")
    folders = [Path(cwd, *packages[:number]) for number in range(1, len(packages) + 1)]
    module = Path(cwd, *packages, last)
    if module.is_dir():
        folders.append(module)
    script = module / "__main__.py" if module.is_dir() else module.with_suffix(".py")
    first = [folder / "__init__.py" for folder in folders if (folder / "__init__.py").is_file()]
    return [*first, script] if script.is_file() else []


def _is_this_python(program: str, environ: Mapping[str, str]) -> bool:
    """Whether a command is started by the Python of this process; a virtual environment is the folder of its own."""
    found = shutil.which(program, path=environ.get("PATH"))
    if found is None:
        return False
    here, there = Path(sys.executable), Path(found)
    names = ("python", f"python{sys.version_info.major}", "python{}.{}".format(*sys.version_info))
    return there.name in names and there.absolute().parent.resolve() == here.absolute().parent.resolve()


def _has_other_start(environ: Mapping[str, str]) -> bool:
    """Whether the environment says something of how Python begins that it does not say here."""
    names = {name for name in (*environ, *os.environ) if name.startswith(_OF_PYTHON) and name not in _SAME}
    return any(environ.get(name) != os.environ.get(name) for name in names)


def _has_others(folder: Path, environ: Mapping[str, str]) -> bool:
    """Whether the script may import another module by a name of which the forkserver has imported one."""
    places = [folder, *map(Path, filter(None, environ.get("PYTHONPATH", "").split(os.pathsep)))]
    for name in (*PACKAGES, *DEFAULT_PRELOAD, "keras", "numpy"):
        spec = importlib.util.find_spec(name)
        mine = None if spec is None or spec.origin is None else Path(spec.origin).resolve().parents[1]
        there = (place for place in places for each in (name, f"{name}.py") if (place / each).exists())
        if any(place.resolve() != mine for place in there):
            return True
    return False
