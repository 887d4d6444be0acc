"""Functions that a program calls between its steps, as an evaluation: what they change has to be proved as well."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness import prove
from harness.evidence.step_graph import Argument, StepGraph
from harness.relations import Proof, proof_of
from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, World
from harness.relations.rules.iterators import only_present
from harness.relations.terms import Terms
from tests.harness.test_proving import _node, _number, _step
from tools.proving.models import models


def _with(step: StepGraph, *others: StepGraph, changed: tuple[str, ...] = ()) -> StepGraph:
    named = tuple(msgspec.structs.replace(each, function=f"other_{at}") for at, each in enumerate(others))
    return msgspec.structs.replace(step, others=named, changed=changed)


def _named(traced: StepGraph, name: str) -> StepGraph:
    """With another name for its variable."""
    arguments = tuple(
        msgspec.structs.replace(each, name=name) if each.kind == "variable" else each for each in traced.arguments
    )
    return msgspec.structs.replace(traced, arguments=arguments)


def _proof(client: StepGraph, alone: StepGraph) -> Proof:
    return proof_of([client], alone, program="p", strategy="s")


RIGHT, ALONE = _step(2, divide=4), _step(1, divide=4)
MEANS, MEANS_ALONE = _step(2, divide=2, mean=True), _step(1, divide=1, mean=True)


def test_what_is_right_may_come_between_steps() -> None:
    """Both are proved, so that every order of them is."""
    proof = _proof(_with(RIGHT, RIGHT), _with(ALONE, ALONE))
    assert proof.status == "proved"
    assert proof.values == 2 * _proof(RIGHT, ALONE).values


def test_what_it_needs_is_a_condition_of_its_own() -> None:
    """The examples of a run are those of its steps, which say nothing of others."""
    proof = _proof(_with(RIGHT, MEANS), _with(ALONE, MEANS_ALONE))
    assert proof.status == "conditional"
    (condition,) = proof.conditions
    assert condition.what == "in other_0, which is called besides, all replicas have equally many examples"


@pytest.mark.parametrize(
    ("client", "alone", "why"),
    [
        (_with(RIGHT, _step(2, divide=2)), _with(ALONE, ALONE), "other_0, which is called besides: variable 'w'"),
        (_with(RIGHT, _step(2, divide=4, reduce=False)), _with(ALONE, ALONE), "variable 'w' is not known"),
        (_with(RIGHT, RIGHT, RIGHT), _with(ALONE, ALONE), "other functions change variables"),
        (_with(RIGHT), _with(ALONE, ALONE), "other functions change variables"),
        (_with(RIGHT, RIGHT, changed=("function 'a' is called",)), _with(ALONE, ALONE), "outside of the function"),
        (_with(RIGHT, _step(2, divide=4, seed=1)), _with(ALONE, ALONE), "begins with another value"),
        (_with(RIGHT, msgspec.structs.replace(RIGHT, doubts=("a doubt",))), _with(ALONE, ALONE), "a doubt"),
        (_with(RIGHT, _step(2, divide=4, whole=True)), _with(ALONE, ALONE), "other_0"),
    ],
)
def test_what_is_wrong_beside_the_step_is_not_proved(client: StepGraph, alone: StepGraph, why: str) -> None:
    """Nor is it refuted, since only the step is run."""
    proof = _proof(client, alone)
    assert proof.status == "open"
    assert any(why in each for each in proof.reasons), proof.reasons
    assert proof.suspects == ()


def test_a_wrong_step_stays_wrong_beside_what_is_right() -> None:
    """And is what is run."""
    proof = _proof(_with(_step(2, divide=2), RIGHT), _with(ALONE, ALONE))
    assert proof.status == "open"
    assert proof.suspects


def test_variables_are_paired_alike_in_all_functions() -> None:
    """One that stands for another one in a second function than in the first is not the same."""
    one, two = _named(RIGHT, "run/a/w"), _named(RIGHT, "run/b/w")
    mine, theirs = _named(ALONE, "alone/a/w"), _named(ALONE, "alone/b/w")
    both = Argument("variable", "run/b/w", 0, "mirrored", "MEAN")
    assert both.kind == "variable"
    assert _proof(_with(one, two), _with(mine, theirs)).status == "proved"
    assert _proof(_with(one, one), _with(mine, theirs)).status == "open"


def test_who_has_examples_is_counted_by_several_workers_too() -> None:
    """As a vector of one, which is taken apart again; together with anything else it is no count."""
    node = _node("SplitV", "split", [], (1,))
    present, part = Fact(FactKind.PRESENT, shape=(1,)), Fact(FactKind.PARTIAL, shape=(1,))
    world = World(2, Terms())
    number = Fact(FactKind.REPLICATED, shape=(), value=_number(1).value.numpy())  # type: ignore[union-attr]
    open_ = Fact(FactKind.REPLICATED, shape=())
    assert only_present(GraphStep(node, (present, number, number), world))
    assert not only_present(GraphStep(node, (part, number, number), world))
    assert not only_present(GraphStep(node, (present, open_, number), world))


def _models(right: bool) -> list[Any]:
    every = models("models:*evaluat*")
    return [each for each in every if each.stem == "evaluating" and (each.mistake is None) is right]


@pytest.mark.full
@pytest.mark.parametrize("model", _models(right=True), ids=lambda model: model.function)
def test_an_evaluation_between_steps_is_proved(model: Any) -> None:
    """In loops, and between calls of `fit` of both versions of Keras."""
    assert prove(model.program, model.strategy).status in ("proved", "conditional")


@pytest.mark.full
@pytest.mark.parametrize("model", _models(right=False), ids=lambda model: model.function)
def test_a_wrong_evaluation_is_not_proved(model: Any) -> None:
    """Open, or refuted where the step is wrong."""
    assert prove(model.program, model.strategy).status in ("open", "refuted")
