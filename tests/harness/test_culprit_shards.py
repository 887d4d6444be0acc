"""The line of a mistake where variables are in shards on parameter servers, and one device has each of them whole."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness import Program, verify
from harness.evidence.watched_step import REPLICA, WatchedStep
from harness.judging.culprit import Culprit, find_culprit
from tests._present import present
from tests.harness._watched import Steps

_FILE = Path(__file__)
_ROWS = 8
_X = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
_IDS = np.array([7, 0, 3, 4, 4, 1])


def _step(shards: int, *, rate: float = 0.5, later: int = 0, clip: bool = False, ahead: int = 0) -> WatchedStep:
    """Each shard of a table gets its own rows of a change; a line is a loop over the shards."""
    steps = Steps([_X], _X)
    change = steps.each("Scale", 2, lambda x: x * np.float32(rate), steps.batch)
    ids = [steps._op("Placeholder", 3, REPLICA, 0, (), _IDS)]
    size = _ROWS // shards
    firsts = [number * size for number in range(shards)]

    def own(first: int) -> list[int]:
        mine = steps.each("Less", 4, lambda ids: (ids >= first + later) & (ids < first + size), ids)
        return steps.each("Where", 4, lambda mine: np.where(mine)[0], mine)

    owns = [own(first) for first in firsts]
    rows = [steps.each("GatherV2", 5, lambda change, own: change[own], change, own) for own in owns]
    if clip:
        rows = [steps.each("L2Norm", 6, lambda rows: rows / np.linalg.norm(rows), each) for each in rows]
    for number, (first, mine, each) in enumerate(zip(firsts, owns, rows, strict=True)):
        at = steps.each("Number", 7, lambda own, first=first: _IDS[own] - first + ahead * first // 4, mine)
        name = f"table/part_{number}" if shards > 1 else "table"
        steps.assign(8, name, [], kind="plain")
        steps.variables[-1] = msgspec.structs.replace(steps.variables[-1], rows=size)
        steps._op("ResourceScatterSub", 8, REPLICA, 0, (0, *at, *each), None)
        steps.ops[-1] = steps._of_variable(steps.ops[-1], name)
    return steps.watched(1)


@pytest.mark.parametrize(
    ("mistake", "line"),
    [
        ({}, None),
        ({"rate": 1.0}, 2),  # before the loops
        ({"later": 1}, 4),  # the first row of each shard is left out
        ({"clip": True}, 6),  # the norm of each shard's rows
        ({"ahead": 1}, 7),  # rows of the second shard are counted from another one
    ],
)
def test_a_line_that_is_a_loop_over_shards_is_held_against_the_whole(mistake: dict[str, Any], line: int | None) -> None:
    """Rows in another order, and by their numbers in the shard, are right."""
    both = {"clip": mistake.get("clip", False)}
    found = find_culprit([_step(2, **mistake)], _step(1, **both), [])
    assert (found.line if isinstance(found, Culprit) else None) == line, found


def test_a_shard_that_is_not_changed_leaves_no_line() -> None:
    """The only one that is changed has right rows; who has left the other one out made no operation."""
    run = _step(2)
    ops = tuple(op for op in run.ops if op.variable != "table/part_1")
    found = find_culprit([msgspec.structs.replace(run, ops=ops)], _step(1), [])
    assert not isinstance(found, Culprit), found


# Real ones, of two variables, the second of which has one shard.


def _trained(strategy: Any, record: Any, *, wrong: str = "") -> None:
    import tensorflow as tf

    cluster = isinstance(strategy, tf.distribute.ParameterServerStrategy)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy) if cluster else None
    random = np.random.default_rng(3)
    with strategy.scope():
        kernel = tf.Variable(random.normal(size=(8, 4)).astype("f4"), name="kernel")
        bias = tf.Variable(np.zeros((1,), "f4"), name="bias")
    variables = [*getattr(kernel, "variables", [kernel]), bias]

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ tf.convert_to_tensor(kernel) + bias - y) ** 2)
            if wrong == "penalty":
                loss += tf.add_n([tf.reduce_mean(each**2) for each in variables])  # penalty
        gradients = tape.gradient(loss, variables)
        if wrong == "clipped":
            gradients = [tf.clip_by_norm(each, 0.1) for each in gradients]  # clipped
        for variable, gradient in zip(variables, gradients, strict=True):
            rate = 0.2 / len(variables) if wrong == "rate" else 0.1
            variable.assign_sub(rate * gradient)  # rate
        return loss

    @tf.function
    def step(x: Any, y: Any) -> Any:
        return strategy.run(replica_step, args=(x, y))

    for _ in range(2):
        args = tuple(tf.constant(random.normal(size=(8, size)).astype("f4")) for size in (8, 4))
        if coordinator is None:
            loss = step(*args)
        else:
            scheduled = coordinator.schedule(step, args=args)
            coordinator.join()
            loss = scheduled.fetch()
        record.step(loss=loss, variables=[kernel, bias])


@pytest.mark.full
@pytest.mark.parametrize("wrong", ["penalty", "clipped", "rate", ""])
def test_a_training_of_variables_in_shards_has_its_line(wrong: str) -> None:
    """And a right one, which is looked at all the same, has none."""
    program = Program.of(functools.partial(_trained, wrong=wrong))
    verdict = verify(program, "parameter_server-1w2p:fixed_shards", explain=True, prove=False)
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
    culprit = present(verdict.looked).culprit
    source = "" if culprit is None else _FILE.read_text().splitlines()[culprit.line - 1]
    assert source.endswith(f"# {wrong}") if wrong else culprit is None, str(verdict)
