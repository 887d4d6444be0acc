"""Rule: after the interruption some workers went on with what had been saved, and others with fresh variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.evidence.observed import items
from harness.evidence.trace import Variable
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._resumption import Resumption, resumption_of
from harness.judging.explain._view import CaseView, Floats
from harness.judging.explain._workers import begun_apart
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.laws.protocol import Case
from harness.judging.wording import joined

RESTORED_ON_SOME = "restored_on_some_workers"
_CURE = (
    "Every worker restores the same checkpoint, from a folder that all of them read: not only the chief "
    "(`if is_chief: checkpoint.restore(...)`), and not from the folder of its own in which a worker that is not the "
    "chief saves. Variables are made equal on all workers when they are created, and never again. "
    "assert_existing_objects_matched() after restore, and stop where tf.train.latest_checkpoint returns None on one "
    "worker only."
)
_LEAST, _MOST, _ALIKE = 0.5, 2.0, 0.8
"""Workers that add the same updates to other beginnings stay as far apart as these were. The reference's way from its
first step to the first resumed one is that distance, but for the updates of these two steps; so the distance is to be
half to twice as long, and its direction (by the cosine) the same.
"""


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    known = list(_fresh_weights(view))
    yield from known
    # What is no weight, such as an average that one of them does not restore.
    if not known and view.case.begin and (said := begun_apart(view)) is not None:
        yield evident(RESTORED_ON_SOME, f"{said}: each worker has what it restored, or made, by itself.")


def _fresh_weights(view: CaseView) -> Iterable[Attempt]:
    found = resumption_of(view)
    if found is None or len(view.case.run.clients) < 2:
        return
    states = _states(found)
    if len({state.tobytes() for state in states.values()}) < 2:
        return
    restored = _restored(view.case)
    # Workers of which one counts from the beginning have done all steps again, from wherever the others went on.
    fresh = _fresh(found, states) if found.first > found.begin else []
    if not fresh and all(restored.get(task) for task in states):
        return
    fresh = fresh or [task for task in states if restored and not restored[task]]
    if not 0 < len(fresh) < len(states):
        return
    others = [task for task in states if task not in fresh]
    known = [f"{task} restored {path!r}" if (path := restored[task]) else f"{task} nothing" for task in restored]
    seen = f" As the journal has it, {', '.join(known)}." if any(restored.values()) else ""
    if found.first == found.begin:
        yield evident(
            RESTORED_ON_SOME,
            f"Killed after step {found.found.at_step}, the run began its steps anew: the variables of {joined(others)} "
            f"have gone on from what was saved, and {joined(fresh)} began with fresh ones.{seen}",
        )
        return
    yield evident(
        RESTORED_ON_SOME,
        f"{found.where}, but not everywhere: after step {found.first} the variables of {joined(others)} have gone on "
        f"from those of step {found.found.resumed_at}, and {joined(fresh)} began with fresh ones"
        f"{_sample(found, states)}."
        f"{seen}",
    )


def _states(found: Resumption) -> dict[str, Floats]:
    """The weights of each client after the first resumed step, one after another; empty where one recorded none."""
    import numpy as np

    moment = found.view.moments[found.first]
    states = {}
    for task, record in zip(moment.tasks, moment.records, strict=True):
        own = items(record, "variables") or {}
        copies = [own.get(name) for name in found.weights]
        arrays = [copy.copies[0].numpy() for copy in copies if isinstance(copy, Variable) and copy.copies]
        if not arrays or len(arrays) < len(copies):
            return {}
        states[task] = np.concatenate([np.real(array).astype(np.float64).ravel() for array in arrays])
    return states if len({state.size for state in states.values()}) == 1 else {}


def _fresh(found: Resumption, states: Mapping[str, Floats]) -> list[str]:
    """The clients that are behind the others by the reference's way from its beginning; empty where that fits badly."""
    import numpy as np

    def known(step: int) -> Floats:
        return np.concatenate([found.known(step, name).ravel() for name in found.weights])

    if not all(name in found.variables[found.first] for name in found.weights):
        return []
    way = known(found.first) - known(found.begin)
    length = float(np.linalg.norm(way))
    along = {task: float(state @ way) for task, state in states.items()}
    ahead = states[max(along, key=lambda task: along[task])]
    if way.size != ahead.size or not 0 < length < np.inf:
        return []
    fresh = []
    for task, state in states.items():
        behind = ahead - state
        size = float(np.linalg.norm(behind))
        if size == 0:
            continue
        if not (_LEAST <= size / length <= _MOST and float(behind @ way) >= _ALIKE * size * length):
            return []
        fresh.append(task)
    return fresh


def _restored(case: Case) -> dict[str, str]:
    """What each client of the resumed part restored before its first step, "" for nothing; empty if not known."""
    if case.saves is None:
        return {}
    restored: dict[str, str] = {}
    for client in case.run.clients:
        task = client.header.task
        process = max((each for each in case.saves.files if each[1] == task), default=None)  # the last one of it
        paths = [
            event.path
            for event in case.saves.events
            if event.process == process and event.restores and event.complete and not event.step
        ]
        restored[task] = paths[-1] if paths else ""
    return restored if any(restored.values()) else {}


def _sample(found: Resumption, states: Mapping[str, Floats]) -> str:
    """The first number of the first variable, on each client and in the reference."""
    name = found.weights[0]
    own = ", ".join(f"{state[0]:.6g} on {task}" for task, state in states.items())
    begin, first = (found.known(step, name).flat[0] for step in (found.begin, found.first))
    return (
        f" ({name!r} begins with {own}; in the reference {begin:.6g} after step {found.begin} and {first:.6g} after "
        f"step {found.first})"
    )


RULES: tuple[Rule, ...] = (Predicting(RESTORED_ON_SOME, 1, _attempts, cure=_CURE),)
