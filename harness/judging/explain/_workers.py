"""What each worker has of a variable, where all replicas of a worker have the same."""

from __future__ import annotations

from collections.abc import Sequence

from harness.judging.explain._view import CaseView, Floats


def of_workers(view: CaseView, step: int, name: str) -> list[Floats] | None:
    """A variable's value on each of several workers; None where replicas of a worker have different ones."""
    clients, copies = view.case.run.clients, view.copies(step, name)
    counts = [client.header.local_replicas for client in clients]
    if len(clients) < 2 or sum(counts) != len(copies):
        return None
    found = []
    for count in counts:
        mine, copies = copies[:count], copies[count:]
        if not mine or any(copy.tobytes() != mine[0].tobytes() for copy in mine):
            return None
        found.append(mine[0])
    return found


def apart(view: CaseView, name: str, values: Sequence[Floats]) -> str:
    """The values of workers in words, in the first element that is not the same for all."""
    import numpy as np

    different = np.any([value != values[0] for value in values], axis=0)
    index = tuple(int(each) for each in np.argwhere(different)[0])
    tasks = [client.header.task for client in view.case.run.clients]
    said = [f"{value[index]:.6g} on {task}" for value, task in zip(values, tasks, strict=True)]
    return f"{name!r}{list(index) if index else ''} is {', '.join(said[:-1])} and {said[-1]}"


def begun_apart(view: CaseView) -> str | None:
    """In words which variables workers began with different values of, and have not made the same since then."""
    steps = view.steps("variables")
    drifted = view.drifted(steps[0]) if steps else []
    begun = {name: values for name, values in view.begun_apart.items() if name in drifted}
    if not begun:
        return None
    name, values = next(iter(begun.items()))
    more = f"; so do {len(begun) - 1} other variables differ" if len(begun) > 1 else ""
    return f"Before step {view.case.begin + 1} {apart(view, name, values)}{more}"


def numbers_begun_apart(view: CaseView) -> bool:
    """Whether these are single numbers, such as a rate, that a strategy has made and that workers have set since."""
    start = view.case.run.clients[0].start
    kinds = {} if start is None else {each.name: each.kind for each in start.variables}
    begun = view.begun_apart
    return bool(begun) and all(kinds.get(name) == "copies" and not values[0].ndim for name, values in begun.items())
