"""Where a watched step's operations were made, as far as that hangs on names of other files."""

from __future__ import annotations

import ast
import threading
import types
from collections.abc import Iterator
from pathlib import Path

from harness.recording import noise
from harness.recording.watch.makers import Makers
from harness.recording.watch.places import AROUND, Places

_REPLACED = {"original", "next_creator", "differentiate"}


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What is in a function, without the functions in it."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            yield node
            pending += ast.iter_child_nodes(node)


def _around(source: str) -> set[str]:
    """The functions that call what they stand for."""
    return {
        function.name
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef)
        for node in _own(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _REPLACED
    }


def test_noise_that_stands_for_tensorflow_s_functions_is_known_by_name() -> None:
    """Else the operations of a new kind of noise would be taken for those that it perturbs, which then had no bound."""
    files = Path(noise.__file__).parent.glob("*.py")
    found = set[str]().union(*(_around(path.read_text()) for path in files))
    assert found == set(AROUND)
    assert _around("def other(original):\n    def moved():\n        return original()\n") == {"moved"}


def test_a_layer_with_a_call_of_the_program_s_own_is_no_maker() -> None:
    """What its code computes has lines by itself; `super().__init__()` says nothing of them."""
    library = (
        "class Layer:\n    def __init__(self, name):\n        self.name = name\n    def call(self):\n        pass\n"
    )
    module = types.ModuleType("library")
    exec(compile(library, "library.py", "exec"), module.__dict__)
    makers = Makers(lambda: 7, lambda file: file == __file__)
    makers._patch("Layer", module)

    class Own(module.Layer):  # type: ignore[name-defined, misc]
        def call(self) -> None: ...

    class OnlyNamed(module.Layer): ...  # type: ignore[name-defined, misc]

    made = [module.Layer("theirs"), Own("own"), OnlyNamed("named")]
    assert len(made) == 3
    assert makers.made == {"theirs": 7, "named": 7}


class _Replica(threading.Thread):
    """Has the number by which TensorFlow's threads of replicas are known."""

    replica_id = 0


def _lines_of_a_replica_within() -> list[str]:
    """Which function each of two threads of one replica is said to be run for, of which the first runs the second."""
    places, found = Places(), list[str]()

    def note() -> None:
        number = places.other()
        assert number is not None
        found.append(places.frames[number].function)

    def asks_all() -> None:
        note()
        within = _Replica(target=note)
        within.start()
        within.join()

    thread = _Replica(target=asks_all)
    thread.start()
    thread.join()
    return found


def test_a_replica_that_runs_replicas_is_where_these_are_run_from() -> None:
    """The main thread is not: it is at `strategy.run`, of the whole step, while Keras 3 applies what it unscales."""
    assert _lines_of_a_replica_within() == ["_lines_of_a_replica_within", "asks_all"]
