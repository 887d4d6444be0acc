"""Variables that a run reports under other names than its reference does.

A model that is loaded has names of its own, such as `dense/kernel` for `sequential/dense/kernel`, and one that is
loaded under a strategy others than one that is loaded on one device. What a program reports it reports in one order.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.evidence.trace import ClientTrace, RunTrace, Variable

_Variables = tuple[Variable, ...] | None


def named_as(run: RunTrace, reference: RunTrace) -> RunTrace:
    """A run with the reference's names for what it reports at the same places, in the same order, under others.

    Only names that the other one has not are paired, where these are as many, each with the other's dtype and shape. So
    a pair that is none is found by its values.
    """
    truth = reference.clients[0]
    by_step = {step.index: step.variables for step in truth.steps if step.variables}
    latest = by_step[max(by_step)] if by_step else None
    final = None if truth.final is None else truth.final.variables

    def named(client: ClientTrace) -> ClientTrace:
        steps = tuple(
            msgspec.structs.replace(step, variables=_named(step.variables, by_step.get(step.index, latest)))
            for step in client.steps
        )
        end = client.final
        end = None if end is None else msgspec.structs.replace(end, variables=_named(end.variables, final))
        return msgspec.structs.replace(client, steps=steps, final=end)

    return RunTrace(tuple(map(named, run.clients)))


def _named(variables: _Variables, truth: _Variables) -> _Variables:
    if not variables or not truth:
        return variables
    ours, theirs = _lacking(variables, truth), _lacking(truth, variables)
    if not ours or list(map(_form, ours)) != list(map(_form, theirs)):
        return variables
    names = {each.name: other.name for each, other in zip(ours, theirs, strict=True)}
    if len(names) < len(ours) or len(set(names.values())) < len(ours):  # several share one
        return variables
    return tuple(msgspec.structs.replace(each, name=names.get(each.name, each.name)) for each in variables)


def _lacking(variables: Sequence[Variable], others: Sequence[Variable]) -> list[Variable]:
    known = {each.name for each in others}
    return [each for each in variables if each.name not in known]


def _form(variable: Variable) -> tuple[str, tuple[int, ...]]:
    return variable.value.dtype, variable.value.shape
