"""Outermost calls of `tf.function`s, and of `Strategy.run` where a program runs eagerly: those that train are steps.

A program may also have a function traced, and call the graph that this gives.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.recording.patches import patched
from harness.recording.watch.places import Places
from harness.recording.witness._arguments import see_arguments
from harness.recording.witness._call_results import is_for_all, reports
from harness.recording.witness.protocol import WitnessState
from simulator.agent.places import place

AROUND = True
"""It is around what other seams do in a call: when that has ended, they have seen all of it."""


_TRACED_FROM = "_lockstep_traced_from"
"""Of a graph that a program had traced: the function. A graph without it is no step, or not the program's."""


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Know a step when it is made, within this context."""
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib
    from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function

    places = Places()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        """As for all, a function, its graph and `Strategy.run`."""

        def call(called: Any, *args: Any, **options: Any) -> Any:
            is_other = isinstance(called, concrete_function.ConcreteFunction) and not hasattr(called, _TRACED_FROM)
            if gathered.threads.is_aside or is_other:
                return original(called, *args, **options)
            if not gathered.is_outermost:
                in_graph = not tf.executing_eagerly() and isinstance(called, distribute_lib.StrategyBase)
                with gathered.together() if in_graph else contextlib.nullcontext():
                    return original(called, *args, **options)
            runs = isinstance(called, distribute_lib.StrategyBase)
            # What an eager program has its replicas run may be a function too, of which no Python is run again.
            function = (args[0] if args else options.get("fn")) if runs else called
            function = _same(function)
            is_function = isinstance(function, polymorphic_function.Function)
            args, options = _with_numbers(gathered, function, args, options)
            known = gathered.functions.call(function, is_traced=is_function)
            with gathered.call(known, runs=runs) as was_step:
                with gathered.looking("the arguments of a call"):
                    given = _given_by_run(args, options) if runs else (args, options)
                    see_arguments(gathered, places, function, *given)
                try:
                    if gathered.steps is None:
                        return original(called, *args, **options)
                    gathered.computed.give((args, options))
                    result = original(called, *args, **options)
                    gathered.computed.take(result)
                finally:
                    if is_function:
                        gathered.remember(function)
                    elif was_step():
                        gathered.functions.trains_eagerly(function)
            if was_step():
                _see_result(gathered, function, result)
            if gathered.tapes and gathered.was_evaluation and (name := _name_of(function)) is not None:
                with gathered.looking("what a call gives back"):
                    gathered.computed.take_evaluated(result)
                    if not is_for_all(result):
                        gathered.noted.unreduced.setdefault(name)
                    gathered.evaluated(result, name, trains=False)
            return result

        return call

    with (
        patched(polymorphic_function.Function, "get_concrete_function", _tracing(gathered)),
        patched(concrete_function.ConcreteFunction, "__call__", around),
        patched(polymorphic_function.Function, "__call__", around),
        patched(distribute_lib.StrategyBase, "run", around),
    ):
        yield


def _tracing(gathered: WitnessState) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Around what gives the graph of a function: what was traced then is known in calls of either."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def trace(function: Any, *args: Any, **options: Any) -> Any:
            if gathered.threads.is_aside or not gathered.is_outermost:
                return original(function, *args, **options)
            with gathered.tracing(function):
                concrete = original(function, *args, **options)
            if function in gathered.functions:
                setattr(concrete, _TRACED_FROM, function)
            return concrete

        return trace

    return around


def _given_by_run(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a call of `Strategy.run` gives to the function of each replica."""
    by_place, by_name = (args[at] if len(args) > at else options.get(name) for at, name in ((1, "args"), (2, "kwargs")))
    return tuple(by_place or ()), dict(by_name or {})


def _same(function: Any) -> Any:
    """What is the same each time that a program calls a function: it may make a partial one each time."""
    function = getattr(function, _TRACED_FROM, function)
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__func__", function)


def _with_numbers(
    gathered: WitnessState, function: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, in which a single step has the numbers that the run's had."""
    import tensorflow as tf

    if gathered.steps is None or not gathered.steps.are_single:
        return args, options
    with gathered.looking("the arguments of a call"):
        leaves = tf.nest.flatten((args, options))
        fed = [place for place, each in enumerate(leaves) if gathered.computed.has(each)]
        # A call that spells its arguments otherwise has its leaves in other places.
        spelled = ", ".join(["_"] * len(args) + [f"{name}=" for name in sorted(options)])
        name = f"{_identity(function)}({spelled})"
        number = gathered.functions.number(name, function)
        given = gathered.steps.called(name if number == 1 else f"{name} #{number}", leaves, fed)
        if given is not None:
            args, options = tf.nest.pack_sequence_as((args, options), given)
    return args, options


def _identity(function: Any) -> str:
    """What tells a function of a program from its others, in every process that runs the same files."""
    from tensorflow.python.util import tf_decorator

    _, inner = tf_decorator.unwrap(getattr(function, "python_function", function))
    code = getattr(getattr(inner, "func", inner), "__code__", None)
    if code is None:
        return type(function).__name__
    return f"{place(Path(code.co_filename).name, code.co_firstlineno)} {code.co_name}"


def _see_result(gathered: WitnessState, function: Any, result: Any) -> None:
    """Keep what a step of the program's own gives back for all replicas, or say that it is not seen.

    Where a program reports by itself, what it means to tell is compared.
    """
    gives = reports(result)
    if (not gives and gathered.has_own_step) or (name := _name_of(function)) is None:
        return
    gathered.has_own_step = True
    if gives and (gathered.at_once or gathered.worker is not None or not is_for_all(result)):
        gathered.gives_parts = True
    elif gives and gathered.in_full and not gathered.reported:
        with gathered.looking("what a call gives back"):
            gathered.evaluated(result, name, trains=True)


def _name_of(function: Any) -> str | None:
    """What a program calls a function, with its line; None of one of Keras, which makes a report of what that gives."""
    from tensorflow.python.util import tf_decorator

    _, inner = tf_decorator.unwrap(getattr(function, "python_function", function))
    code = getattr(inner, "__code__", None)
    if code is not None and any(f"{os.sep}{package}{os.sep}" in code.co_filename for package in ("keras", "tf_keras")):
        return None
    where = "" if code is None else f" ({place(Path(code.co_filename).name, code.co_firstlineno)})"
    return f"{getattr(inner, '__name__', 'a function')}{where}"
