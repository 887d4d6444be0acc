"""Variables that a run reports under other names than its reference does.

A model that is loaded has names of its own, such as `dense/kernel` for `sequential/dense/kernel`, and one that is
loaded under a strategy others than one that is loaded on one device. What a program reports it reports in one order.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from harness.evidence.loaded_names import other_names, with_names
from harness.evidence.trace import ClientTrace, RunTrace, Start, Variable

_Variables = tuple[Variable, ...] | None


def named_as(run: RunTrace, reference: RunTrace) -> RunTrace:
    """A run with the reference's names for what it reports at the same places, in the same order, under others.

    What is reported hides what a program has made of that name and not reported, such as a model that nobody trains
    beside one that is loaded.
    """
    truth = reference.clients[0]
    by_step = {step.index: step.variables for step in truth.steps if step.variables}
    latest = by_step[max(by_step)] if by_step else None
    final = None if truth.final is None else truth.final.variables

    def named(client: ClientTrace) -> ClientTrace:
        names = [_names(step.variables, by_step.get(step.index, latest)) for step in client.steps]
        steps = tuple(
            msgspec.structs.replace(step, variables=_named(step.variables, chosen))
            for step, chosen in zip(client.steps, names, strict=True)
        )
        every = {name: other for chosen in names for name, other in chosen.items()}
        end = client.final
        if end is not None:
            end = msgspec.structs.replace(end, variables=_named(end.variables, _names(end.variables, final)))
        return msgspec.structs.replace(
            client,
            steps=steps,
            final=end,
            start=None if client.start is None else _begun(client.start, every),
            starts=tuple(_begun(start, every) for start in client.starts),
        )

    return RunTrace(tuple(map(named, run.clients)))


def _names(variables: _Variables, truth: _Variables) -> dict[str, str]:
    """The reference's names, by those that it has not."""
    if not variables or not truth:
        return {}
    ours, theirs = (
        [(each.name, (each.value.dtype, each.value.shape)) for each in every] for every in (variables, truth)
    )
    return other_names(ours, theirs)


def _named(variables: _Variables, names: Mapping[str, str]) -> _Variables:
    if not variables or not names:
        return variables
    return with_names(variables, names)


def _begun(start: Start, names: Mapping[str, str]) -> Start:
    hidden = set(names.values())
    shown = (each for each in start.variables if each.name not in hidden)
    return msgspec.structs.replace(start, variables=with_names(shown, names))
