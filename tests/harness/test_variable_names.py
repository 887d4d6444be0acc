"""Variables under the names that the reference has for them: those of one name, and those of a model that is loaded."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from harness import verify
from harness.evidence.arrays import Array
from harness.evidence.loaded_names import names_before, renamed
from harness.evidence.trace import RunTrace, Seen, SeenVariable, Start
from harness.evidence.watched_step import OUTER, Frame, Op, WatchedStep, WatchedVariable
from harness.judging.align.variable_names import named_as
from harness.judging.culprit.alignment import alike_named
from tests.harness._traces import client, step


def _watched(*made: tuple[str, int]) -> WatchedStep:
    """Variables, each with its name and the line that makes it, and an assignment to each."""
    frames = tuple(Frame("train.py", line, "<module>", own=True) for _, line in made)
    ops = tuple(
        Op(number, "AssignVariableOp", "a", OUTER, 0, (), None, (), (), name)
        for number, (name, _) in enumerate(made, 1)
    )
    seen = tuple(WatchedVariable(name, made=at) for at, (name, _) in enumerate(made))
    return WatchedStep("local:0", 1, 2, frames, ops, (), seen)


@pytest.mark.parametrize(
    ("run", "reference", "names"),
    [
        # One for each device at line 3 moves the numbers of those of line 5.
        (
            (("v", 3), ("v#2", 3), ("v#3", 5), ("v#4", 5)),
            (("v", 3), ("v#2", 5), ("v#3", 5)),
            ("v of local:0", "v#2 of local:0", "v#2", "v#3"),
        ),
        # The reference makes them in another order.
        ((("v", 3), ("v#2", 5)), (("v", 5), ("v#2", 3)), ("v#2", "v")),
        # What has a name of its own keeps it, wherever it is made.
        ((("w", 3), ("v", 4), ("v#2", 4)), (("w", 9), ("v", 4), ("v#2", 4)), ("w", "v", "v#2")),
    ],
)
def test_variables_that_share_a_name_are_paired_by_their_lines(
    run: tuple[tuple[str, int], ...], reference: tuple[tuple[str, int], ...], names: tuple[str, ...]
) -> None:
    """And by their order there, in what is known of them and in each operation."""
    found = alike_named(_watched(*run), _watched(*reference))
    assert tuple(seen.name for seen in found.variables) == names
    assert tuple(op.variable for op in found.ops) == names
    assert [seen.made for seen in found.variables] == list(range(len(run)))


@pytest.mark.parametrize(
    ("reported", "names"),
    [
        pytest.param({"kernel": [1.0, 2.0], "bias": 0.0}, ["model/kernel", "model/bias"], id="loaded"),
        pytest.param({"bias": 0.0, "kernel": [1.0, 2.0]}, ["model/bias", "model/kernel"], id="another order"),
        pytest.param({"kernel": [1.0, 2.0]}, ["model/kernel"], id="fewer"),
        pytest.param({"one": [1.0, 2.0], "two": [1.0, 2.0]}, ["one", "two"], id="more of a form"),
        pytest.param({"kernel": [1.0, 2.0], "model/bias": 0.0}, ["model/kernel", "model/bias"], id="one"),
        pytest.param({"kernel": 1.0, "bias": 0.0}, ["kernel", "bias"], id="another shape"),
    ],
)
def test_other_names_at_the_same_places(reported: dict[str, Any], names: list[str]) -> None:
    """They are paired where as many of a form lack one, in their order; steps beyond the reference's too."""
    given = {name: np.array(value, np.float32) for name, value in reported.items()}
    truth = RunTrace(
        (
            client(
                step(1, variables={"model/kernel": np.array([1, 2], np.float32), "model/bias": np.array(0, np.float32)})
            ),
        )
    )
    run = RunTrace((client(*(step(number, variables=given) for number in (1, 2))),))
    found = named_as(run, truth).clients[0].steps
    assert [[each.name for each in one.variables or ()] for one in found] == [names, names]


def test_what_is_not_reported_is_hidden_by_what_is() -> None:
    """A part that makes a model, loads another one and reports that begins with the other's values."""
    zero, one, two = (Array.of(np.array(number, np.float32)) for number in range(3))

    def start(values: Mapping[str, Array]) -> Start:
        return Start(0.0, tuple(SeenVariable(name, "copies", (value,)) for name, value in values.items()))

    def begun(name: str, values: Mapping[str, Array]) -> RunTrace:
        reported = client(step(1, variables={name: np.array(1, np.float32)}))
        return RunTrace((msgspec.structs.replace(reported, start=start(values), starts=(start(values),)),))

    truth = begun("model/kernel", {"model/kernel": one})
    found = named_as(begun("kernel", {"model/kernel": zero, "kernel": one, "rate": two}), truth).clients[0]
    assert found.start == start({"model/kernel": one, "rate": two})
    assert found.starts == (found.start,)
    same = begun("model/kernel", {"model/kernel": zero, "kernel": one})
    assert named_as(same, truth).clients[0].start == same.clients[0].start  # it trains what it has not loaded


def _part(begins: Mapping[str, float], *steps: Mapping[str, float]) -> RunTrace:
    """A process whose variables nobody reports; a name may end with a space, and be another variable's of that name."""

    def seen(values: Mapping[str, float]) -> tuple[SeenVariable, ...]:
        return tuple(
            SeenVariable(name.strip(), "copies", (Array.of(np.array(value, np.float32)),))
            for name, value in values.items()
        )

    trace = client(step(1))
    every = tuple(Seen(index, float(index), variables=seen(values)) for index, values in enumerate(steps, 1))
    return RunTrace((msgspec.structs.replace(trace, start=Start(0.0, seen(begins)), seen=every),))


_FIRST = _part({"m/w": 0, "n": 0}, {"m/w": 1, "n": 1})
_IDLE = " of a model that is not trained"


@pytest.mark.parametrize(
    ("later", "names"),
    [
        pytest.param(_part({"m/w": 1, "n": 1}, {"m/w": 2, "n": 2}), (), id="the same names"),
        pytest.param(_part({"w": 1, "n": 1}, {"w": 2, "n": 2}), ("m/w", "n"), id="loaded"),
        pytest.param(
            _part({"m/w": 0, "n": 0, "w": 1, "n ": 1}, {"m/w": 0, "n": 0, "w": 2, "n ": 2}),
            ("m/w" + _IDLE, "n" + _IDLE, "m/w", "n"),
            id="loaded beside the fresh one",
        ),
        pytest.param(_part({"m/w": 1, "n": 1}, {"m/w": 1, "n": 2}), (), id="trained no more"),
        pytest.param(
            _part({"m/w": 0, "n": 1, "w": 1, "v": 1}, {"m/w": 0, "n": 2, "w": 2, "v": 2}), (), id="more are trained"
        ),
    ],
)
def test_a_later_part_has_the_names_of_the_first(later: RunTrace, names: tuple[str, ...]) -> None:
    """What is trained has them, where a model lives on that is built and not trained."""
    found = names_before(later, _FIRST)
    start = renamed(later, found).clients[0].start
    assert start is not None
    own = [each.name for each in later.clients[0].start.variables] if later.clients[0].start is not None else []
    assert [each.name for each in start.variables] == (list(names) or own)
    assert bool(found) == bool(names)


def loads(strategy: Any, record: Any, whole: bool = True, fresh: bool = False) -> None:
    """Each epoch is saved whole, and what begins anew loads it, `whole` or without slots: Keras names it otherwise.

    A `fresh` model that nobody trains has the name that it had.
    """
    import keras
    import tensorflow as tf

    rows = tf.random.stateless_normal((32, 4), (1, 2))
    done = sorted(record.directory.glob("m-*.keras"))
    with strategy.scope():
        built: Any = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]) if fresh or not done else None
        model = keras.models.load_model(done[-1], compile=whole) if done else built
        if not done or not whole:
            model.compile(optimizer=keras.optimizers.Adam(0.02), loss="mse")
    callbacks = [
        record.keras_callback(model),
        keras.callbacks.ModelCheckpoint(str(record.directory / "m-{epoch}.keras")),
    ]
    fits = {"batch_size": 16, "shuffle": False, "epochs": 3, "initial_epoch": len(done), "verbose": 0}
    model.fit(rows, rows[:, :1], callbacks=callbacks, **fits)


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "outcome"),
    [({}, "consistent"), ({"fresh": True}, "consistent"), ({"whole": False}, "inconsistent")],
)
def test_a_model_that_is_loaded_is_compared(options: dict[str, bool], outcome: str) -> None:
    """After an interruption, with all of its slots."""
    program = functools.partial(loads, **options)
    verdict = verify(program, "mirrored-2", interrupt_at=4, explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
