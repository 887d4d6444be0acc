"""What is under test: one function `train(strategy, record)`, given as a callable or as `FILE.py:FUNCTION`."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import linecache
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import msgspec

from _lockstep import names
from harness.subject.notebook import show_source
from harness.subject.script import Script
from simulator import UsageError
from simulator.launch import pack, unpack
from simulator.launch.before_import import before_tensorflow

_FORM = "a program is given as FILE.py:FUNCTION, for example train.py:train"


@dataclass(frozen=True)
class Program:
    """A program under test, ready to be sent to a task.

    Attributes:
        name: what reports call it.
        payload: how a task gets the function.
        digest: changes whenever the program does; the reference run is cached under it.
        script: what is run, if it is an unmodified script; it has no function.
        origin: the function as `FILE.py:FUNCTION` with an absolute path, None where no other Python can find it so.
        variables: of the environment that its processes begin with, since its file sets them before it imports
            TensorFlow.
        fixed_draws: whether functions of its datasets draw one and the same number.
    """

    name: str
    payload: bytes
    digest: str
    script: Script | None = None
    origin: str | None = None
    variables: tuple[tuple[str, str], ...] = ()
    fixed_draws: bool = False

    @property
    def task_environ(self) -> dict[str, str]:
        """What `Cluster.start` gives to the processes that are called with the program."""
        return dict(self.variables)

    @classmethod
    def of(cls, program: Callable[..., Any] | str | Sequence[str] | Program) -> Program:
        """Accept a function, a `FILE.py:FUNCTION`, the command of a script, or a Program.

        Raises:
            UsageError: not such a thing; the message says what is missing.
        """
        if isinstance(program, Program):
            return program
        if isinstance(program, (list, tuple)):
            return cls.of_script(Script.of(program))
        if isinstance(program, str):
            return cls._from_text(program)
        return cls._from_callable(cast("Callable[..., Any]", program))

    @classmethod
    def of_script(cls, script: Script) -> Program:
        """An unmodified script.

        Raises:
            UsageError: it is no Python, imports a neighbour that has the name of a package of Lockstep's, or has an
                argument that is not UTF-8.
        """
        file = Path(script.path)
        if script.cells:
            source, trees = b"", [(each, _parsed(cell.source.encode(), each)) for each, cell in script.shown_cells()]
        else:
            try:
                source = file.read_bytes()
            except OSError as error:
                raise UsageError(f"{script.path!r} cannot be read: {error.strerror}") from error
            trees = [(script.path, _parsed(source, file.name))]
        for each, tree in trees:
            _check_imports(tree, Path(each))
        for word in (script.path, script.cwd, *script.args):
            if word.encode(errors="replace").decode() != word:
                raise UsageError(
                    f"{word!r} is not UTF-8, in which a verification keeps its files; give the script "
                    "another name or argument for that"
                )
        variables = _variables(ast.Module([node for _, tree in trees for node in tree.body], []))
        digest = _digest(source, msgspec.json.encode(script), msgspec.json.encode(variables))
        return cls(name=script.name, payload=b"", digest=digest, script=script, variables=variables)

    def under(
        self,
        strategy: str,
        replicas: int,
        workers: int,
        ps: int = 0,
        *,
        disturbed: bool = False,
        device_type: str = "CPU",
    ) -> Program:
        """The program, ready to be its own reference: that of a script depends on what it stands for."""
        if self.script is None:
            return self
        cluster: dict[str, Any] = {"strategy": strategy, "replicas": replicas, "workers": workers, "ps": ps}
        of_run: dict[str, Any] = {"disturbed": disturbed, "device_type": device_type}
        return Program.of_script(msgspec.structs.replace(self.script, **cluster, **of_run))

    def with_one_worker(self, repeated: int = 1) -> Program:
        """A script with a coordinator, as its own reference that is told of a single worker.

        Args:
            repeated: how often it has each example in its batch.
        """
        assert self.script is not None
        return Program.of_script(msgspec.structs.replace(self.script, workers=1, repeated=repeated))

    def sent_from(self, folder: Path) -> Program:
        """The same where the files of this folder have been sent to, which is then the working directory.

        Raises:
            UsageError: its file is not among them.
        """
        function, (path, name), _ = unpack(self.payload) if self.origin is not None else (None, ("", ""), {})
        if function is not _from_file:
            return self  # it travels as a whole, or by the name of its module
        if not Path(path).is_relative_to(folder):
            raise UsageError(f"{path} is not below {folder}, whose files are sent; run from a folder that has it")
        payload = pack(_from_file, (str(Path(path).relative_to(folder)), name), {})
        return replace(self, payload=payload)

    def natively(self, steps: int | None) -> Program:
        """A script as it is on one device, which is told that there is one replica, and may end after so many steps."""
        assert self.script is not None
        first = self.script.first if steps is None else steps
        return Program.of_script(msgspec.structs.replace(self.script, replicas=1, workers=1, first=first))

    def assuming(self, counts: dict[str, int]) -> Program:
        """A script of which the reference takes these for the number of replicas, by `FILE:LINE`."""
        assert self.script is not None
        return Program.of_script(msgspec.structs.replace(self.script, assume={**self.script.assume, **counts}))

    @classmethod
    def _from_callable(cls, function: Callable[..., Any]) -> Program:
        if not callable(function):
            raise UsageError(
                f"{function!r} is not a program; give a function train(strategy, record), or FILE.py:FUNCTION"
            )
        _check_signature(function)
        payload = pack(function, (), {})
        if sources := _without_file(function):
            payload = pack(_with_sources, (payload, sources), {})
        digest = _digest(payload, _source_of(function))
        return cls(name=_name_of(function), payload=payload, digest=digest, origin=_origin_of(function))

    @classmethod
    def _from_text(cls, text: str) -> Program:
        file, colon, function = text.rpartition(":")
        if not colon or not file or not function:
            raise UsageError(f"{text!r} names no function; {_FORM}")
        path = Path(file)
        if not path.is_file():
            what = f"{file!r} is a directory" if path.is_dir() else f"there is no file {file!r}"
            raise UsageError(f"{what}; {_FORM}")
        if path.suffix != ".py":
            raise UsageError(f"{file!r} does not end in .py, so Python does not import it; {_FORM}")
        try:
            source = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{file!r} cannot be read: {error.strerror}") from error
        # Parsed, not imported: the file imports TensorFlow, which the parent never does.
        tree = _parsed(source, file)
        functions = _functions(tree)
        if function not in functions:
            defined = ", ".join(functions) or "none at all"
            raise UsageError(f"{file} defines no function {function!r}; it defines {defined}")
        if (definition := functions[function]) is not None and not _takes_two(definition):
            raise UsageError(
                f"{function} in {file} cannot be called as train(strategy, record): see line {definition.lineno}"
            )
        _check_imports(tree, path.resolve())
        payload = pack(_from_file, (str(path.resolve()), function), {})
        origin = f"{path.resolve()}:{function}"
        variables = _variables(tree)
        digest = _digest(payload, source, msgspec.json.encode(variables))
        return cls(f"{path.name}:{function}", payload, digest, origin=origin, variables=variables)

    def load(self) -> Callable[..., Any]:
        """The function itself; called in a task, where it may import TensorFlow."""
        function, args, _ = unpack(self.payload)
        return function(*args) if function in (_from_file, _with_sources) else function


def _from_file(path: str, function: str) -> Callable[..., Any]:
    """Import the file under its own name, with its directory on `sys.path` as `python FILE.py` would have it."""
    import importlib.util
    import sys

    file = Path(path).absolute()  # it is relative where it has been sent
    sys.path.insert(0, str(file.parent))
    # A file called `harness.py`, or like anything else that is imported already, must not take its place.
    name = file.stem if file.stem not in sys.modules else f"{file.stem}.py"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    loaded: Callable[..., Any] = getattr(module, function)
    return loaded


def _with_sources(payload: bytes, sources: dict[str, str]) -> Callable[..., Any]:
    """Unpack a function, and let Python know the sources that it has no file for."""
    for file, source in sources.items():
        show_source(file, source)
    return unpack(payload)[0]


def _without_file(function: Callable[..., Any]) -> dict[str, str]:
    """Sources that no file has, such as cells of a notebook, if the function stands in one of them."""
    # A function or a file of the cache that is not yet read is an entry of another length.
    known = {file: entry for file, entry in linecache.cache.items() if len(entry) == 4 and entry[1] is None}
    code = getattr(_innermost(function), "__code__", None)
    if code is None or code.co_filename not in known:
        return {}
    return {file: "".join(entry[2]) for file, entry in known.items()}


def _variables(tree: ast.Module) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(before_tensorflow(tree, os.environ).variables.items()))


# What a literal makes cannot be called.
_NEVER_CALLABLE = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.JoinedStr)


def _parsed(source: bytes, file: str) -> ast.Module:
    try:
        return ast.parse(source)
    # ValueError: null bytes, before Python 3.12. The other two: nested too deeply.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise UsageError(f"{file} is not Python: {getattr(error, 'msg', error)}{line}") from error


def _check_imports(tree: ast.Module, file: Path) -> None:
    """The process of a task can have one package of a name, and for Lockstep's own names it is Lockstep's."""
    for line, module in _imported(tree):
        name = module.partition(".")[0]
        if name in names.PACKAGES and (where := names.beside(name, file.parent)):
            raise UsageError(
                f"{file.name} imports {name!r} (line {line}), which beside it is {where}; in a task of verify it would "
                "be Lockstep's package of that name. Rename yours, or run the program unmodified, with `lockstep run`"
            )


def _imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef | None]:
    """What may be a program: functions, and with `None` names that are assigned, such as `train = make(...)`."""
    found: dict[str, ast.FunctionDef | None] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign) and not isinstance(node.value, _NEVER_CALLABLE):
            found.update((target.id, None) for target in node.targets if isinstance(target, ast.Name))
    return found


def _takes_two(definition: ast.FunctionDef) -> bool:
    """Whether a function can be called with two arguments; a decorator may change that, so it is taken on trust."""
    if definition.decorator_list:
        return True
    args = definition.args
    positional = len(args.posonlyargs) + len(args.args)
    keywords_required = any(default is None for default in args.kw_defaults)
    return positional - len(args.defaults) <= 2 <= (2 if args.vararg else positional) and not keywords_required


def _check_signature(function: Callable[..., Any]) -> None:
    name = getattr(function, "__qualname__", repr(function))
    try:
        inspect.signature(_innermost(function))
    except ValueError:
        return  # a builtin without a signature; calling it will tell
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError) as error:  # ValueError: a partial with an argument that its function does not have
        raise UsageError(f"{name} cannot be called as train(strategy, record): {error}") from error


def _name_of(function: Callable[..., Any]) -> str:
    inner = _innermost(function)
    name = getattr(inner, "__qualname__", type(inner).__name__).replace("<locals>.", "")
    module = str(getattr(inner, "__module__", "") or "").rpartition(".")[2]
    if module not in ("", "__main__"):
        name = f"{module}.{name}"
    if isinstance(function, functools.partial):
        name += f"({', '.join(f'{key}={value!r}' for key, value in function.keywords.items())})"
    return name


def _innermost(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _source_of(function: Callable[..., Any]) -> bytes:
    # A function that travels by reference has no content in its pickle: its module's file is the content.
    try:
        file = inspect.getsourcefile(_innermost(function))
    except TypeError:
        return b""
    return Path(file).read_bytes() if file and Path(file).is_file() else b""


def _origin_of(function: Callable[..., Any]) -> str | None:
    """Where a function of a file stands, unless it was made by another one."""
    name = getattr(function, "__qualname__", "")
    file = inspect.getsourcefile(function) if inspect.isfunction(function) and name.isidentifier() else None
    return f"{Path(file).resolve()}:{name}" if file and file.endswith(".py") and Path(file).is_file() else None


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
