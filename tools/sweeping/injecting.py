"""Puts small errors into what a run has recorded, one number of one array at one moment each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from harness.evidence.observed import OBSERVABLES, is_integer, items
from harness.evidence.trace import Array, ClientTrace, Final, Step, Value, Variable
from harness.judging.tolerance import eps

if TYPE_CHECKING:
    import numpy as np

SIZE = 1e-3
"""The error relative to the number that gets it."""


class NoEffect(ValueError):
    """Raised when an error cannot be put there: it vanishes in the dtype, or the run has a zero there."""


class Injection(msgspec.Struct, frozen=True):
    """Where an error goes: into the number at `index` of one recorded value, `step` being None at the end.

    `element` is `smallest` or `random`, `moment` is `first`, `middle`, `last` or `end`; `expected` is the reference's
    number there, and `largest` its largest in that array.
    """

    observable: str
    name: str
    step: int | None
    index: tuple[int, ...]
    element: str
    moment: str
    expected: float
    largest: float


def injections(reference: ClientTrace, random: Random, most: int) -> list[Injection]:
    """At most so many, spread over all arrays of floating numbers, four moments, the smallest number and a random one.

    Zeros are left out, of which an error relative to them is none, and dtypes in which it vanishes.
    """
    found = [
        injection
        for observable in OBSERVABLES
        for name, moments in _recorded(reference, observable).items()
        for moment, step in _chosen(moments)
        for injection in _elements(observable, name, step, moment, moments[step], random)
    ]
    return found if len(found) <= most else sorted(random.sample(found, most), key=found.index)


def _recorded(client: ClientTrace, observable: str) -> dict[str, dict[int | None, Array]]:
    """Each value by its name, and then by its step."""
    found: dict[str, dict[int | None, Array]] = {}
    for record in (*client.steps, client.final):
        for name, item in (items(record, observable) or {}).items():
            arrays = item.parts if isinstance(item, Value) else (item.value,)
            if len(arrays) == 1:
                found.setdefault(name, {})[_step(record)] = arrays[0]
    return found


def _step(record: Step | Final | None) -> int | None:
    return record.index if isinstance(record, Step) else None


def _chosen(moments: dict[int | None, Array]) -> Iterator[tuple[str, int | None]]:
    """The first, the middle and the last step that there are, and the end."""
    steps = [step for step in moments if step is not None]
    chosen: dict[int | None, str] = {}
    if steps:
        chosen = {steps[len(steps) // 2]: "middle", steps[-1]: "last", steps[0]: "first"}
    if None in moments:
        chosen[None] = "end"
    yield from ((moment, step) for step, moment in chosen.items())


def _elements(
    observable: str, name: str, step: int | None, moment: str, array: Array, random: Random
) -> Iterator[Injection]:
    import numpy as np

    if is_integer(array.dtype) or array.dtype.startswith("complex") or eps(array.dtype) >= SIZE:
        return
    size = np.abs(array.numpy().astype(np.float64))
    usable = np.flatnonzero(np.isfinite(size) & (size > 0))
    if not len(usable):
        return
    smallest = int(usable[np.argmin(size.flat[usable])])
    chosen = {smallest: "smallest"}
    chosen.setdefault(int(usable[random.randrange(len(usable))]), "random")
    largest = float(size.flat[usable].max())
    for place, element in chosen.items():
        index = tuple(int(each) for each in np.unravel_index(place, size.shape))
        expected = float(array.numpy()[index])
        yield Injection(observable, name, step, index, element, moment, expected, largest)


def grouped(wanted: Sequence[Injection], most: int) -> list[list[Injection]]:
    """Injections that one judgement can tell apart: of a value no two, and of an observable at most so many."""
    groups: list[list[Injection]] = []
    for injection in wanted:
        for group in groups:
            alike = [each for each in group if each.observable == injection.observable]
            if len(alike) < most and all(each.name != injection.name for each in alike):
                group.append(injection)
                break
        else:
            groups.append([injection])
    return groups


def injected(clients: Sequence[ClientTrace], injection: Injection) -> list[ClientTrace]:
    """The clients of a run, what they recorded changed such that only a comparison with the reference can see it.

    A variable changes in every copy, a reduced value on every client; of parts that are added up one replica's changes
    by so much that the sum is wrong by `SIZE`.

    Raises:
        NoEffect: it would change nothing.
    """
    held = [_item(client, injection) for client in clients]
    variables = [item for item in held if isinstance(item, Variable)]
    if len(variables) == len(held):
        return _put(clients, injection, [_variable(item, injection.index) for item in variables])
    values = [item for item in held if isinstance(item, Value)]
    if len(values) < len(held):
        raise NoEffect("not every client has recorded it")
    if any(item.per_replica for item in values) or any(item.parts != values[0].parts for item in values):
        return _put(clients, injection, _one_part(values, injection))
    whole = [_value(item, injection.index) for item in values]
    return _put(clients, injection, whole)


def _item(client: ClientTrace, injection: Injection) -> Value | Variable | None:
    record = next((record for record in (*client.steps, client.final) if _is_at(record, injection.step)), None)
    return (items(record, injection.observable) or {}).get(injection.name)


def _is_at(record: Step | Final | None, step: int | None) -> bool:
    return record is not None and _step(record) == step


def _variable(variable: Variable, index: tuple[int, ...]) -> Variable:
    if variable.aggregated is not None:
        return msgspec.structs.replace(variable, aggregated=_scaled(variable.aggregated, index))
    return msgspec.structs.replace(variable, copies=tuple(_scaled(copy, index) for copy in variable.copies))


def _value(value: Value, index: tuple[int, ...]) -> Value:
    return msgspec.structs.replace(value, parts=tuple(_scaled(part, index) for part in value.parts))


def _scaled(array: Array, index: tuple[int, ...]) -> Array:
    return _changed(array, index, SIZE * float(array.numpy()[index]))


def _one_part(values: Sequence[Value], injection: Injection) -> list[Value]:
    """Add the error of the sum to the smallest part, where the dtype is finest."""
    if injection.observable == "predictions":
        raise NoEffect("parts of predictions are no sum")
    parts = [(abs(number), client, place, number) for client, place, number in _numbers(values, injection.index)]
    _, client, place, _ = min(parts)
    error = SIZE * sum(number for *_, number in parts)
    changed = list(values[client].parts)
    changed[place] = _changed(changed[place], injection.index, error)
    return [
        msgspec.structs.replace(value, parts=tuple(changed)) if position == client else value
        for position, value in enumerate(values)
    ]


def _numbers(values: Sequence[Value], index: tuple[int, ...]) -> Iterator[tuple[int, int, float]]:
    for client, value in enumerate(values):
        for place, part in enumerate(value.parts):
            yield client, place, float(part.numpy()[index])


def _changed(array: Array, index: tuple[int, ...], error: float) -> Array:
    numbers: np.ndarray[Any, Any] = array.numpy().copy()
    before = numbers[index]
    numbers[index] = numbers.dtype.type(float(before) + error)
    if numbers[index] == before:
        raise NoEffect(f"{before} is the same with an error of {error:.3g}")
    return Array.of(numbers, array.rows)


def _put(clients: Sequence[ClientTrace], injection: Injection, held: Sequence[Value | Variable]) -> list[ClientTrace]:
    return [_with(client, injection, item) for client, item in zip(clients, held, strict=True)]


def _with(client: ClientTrace, injection: Injection, item: Value | Variable) -> ClientTrace:
    if injection.step is None:
        assert client.final is not None
        return msgspec.structs.replace(client, final=_replaced(client.final, injection, item))
    steps = tuple(_replaced(step, injection, item) if step.index == injection.step else step for step in client.steps)
    return msgspec.structs.replace(client, steps=steps)


def _replaced(record: Any, injection: Injection, item: Value | Variable) -> Any:
    if injection.observable == "loss":
        return msgspec.structs.replace(record, loss=item)
    by_name = (items(record, injection.observable) or {}) | {injection.name: item}
    return msgspec.structs.replace(record, **{injection.observable: tuple(by_name.values())})
