"""Rule `restored_on_some_workers`: one of two workers resumes with fresh variables, and gradients are reduced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.evidence.parts import Part, Parts
from harness.evidence.reference import Reference
from harness.evidence.saves import Process, SaveEvent, Saves
from harness.evidence.trace import RunTrace, Step
from harness.judging.explain import Explanation
from harness.judging.explain.restored_on_some_workers import RULES
from harness.judging.judge import judge_parts
from harness.verify import judge
from tests._present import present
from tests.harness._traces import client, step

STEPS, AT, SAVED = 8, 5, 4
F64 = np.ndarray[Any, Any]


class _Worker:
    """Least squares with momentum; `state` is what a checkpoint would hold."""

    def __init__(self, momentum: float, noise: float = 0.0) -> None:
        self.momentum, self.slot = momentum, np.zeros(5)
        self.w: F64 = np.linspace(-1.0, 2.0, 5) + noise

    def gradient(self, x: F64) -> F64:
        return np.asarray(x.T @ (x @ self.w - x.sum(axis=1)) / 12)

    def update(self, gradient: F64) -> None:
        self.slot = self.momentum * self.slot - 0.3 * gradient
        self.w = self.w + self.slot


def _train(workers: list[_Worker], first: int, last: int, reduced: bool = True) -> list[list[Step]]:
    """These steps on all workers, recorded from 1 on."""
    found: list[list[Step]] = [[] for _ in workers]
    for number in range(first, last + 1):
        shards = np.array_split(np.random.default_rng(number).standard_normal((12, 5)), len(workers))
        gradients = [worker.gradient(x) for worker, x in zip(workers, shards, strict=True)]
        for k, worker in enumerate(workers):
            worker.update(sum(gradients, np.zeros(5)) if reduced else gradients[k])
            found[k].append(step(number - first + 1, variables={"w": worker.w, "w/momentum": worker.slot}))
    return found


def _run(recorded: list[list[Step]]) -> RunTrace:
    many = len(recorded)
    name = "worker" if many > 1 else "local"
    return RunTrace(
        tuple(
            client(*steps, task=f"{name}:{k}", clients=many, replicas=many, work=None)
            for k, steps in enumerate(recorded)
        )
    )


def _explained(
    fresh: tuple[int, ...],
    momentum: float = 0.9,
    many: int = 2,
    reduced: bool = True,
    saves: Saves | None = None,
    anew: bool = False,
) -> Explanation | None:
    """Killed after step 5; all but the `fresh` workers restore what was saved after step 4, and go on from there.

    Or they do all steps `anew`, as where one of them counts from the beginning.
    """
    whole = [_run(_train([_Worker(momentum, noise)], 1, STEPS)) for noise in (0.0, 1e-15, -1e-15)]
    reference = Reference(whole[0], tuple(whole[1:]))
    before = _run(_train([_Worker(momentum) for _ in range(many)], 1, AT))
    workers = [_Worker(momentum) for _ in range(many)]
    if len(fresh) < many:
        _train([worker for k, worker in enumerate(workers) if k not in fresh], 1, SAVED)
    last = _run(_train(workers, 1 if anew else SAVED + 1, STEPS, reduced))
    parts = Parts(last, (Part(before, AT, AT),), ("ckpt-4.index",), must_resume=True, saves=saves)
    verdict = judge(parts, reference, program="p", tasks={}, seconds=0.0)
    assert bool(verdict) == (not fresh and reduced)
    (rule,) = RULES
    claimed = rule.explain(judge_parts(parts, reference).case)
    assert (claimed is not None) == (verdict.explanation is not None and verdict.explanation.rule == rule.id)
    return verdict.explanation


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(("fresh", "many"), [((1,), 2), ((0,), 2), ((1, 2), 3), ((2,), 3)])
def test_it_is_named_who_began_anew(fresh: tuple[int, ...], many: int, momentum: float) -> None:
    """By the values alone: workers that add the same updates stay as far apart as they began."""
    found = present(_explained(fresh, momentum, many))
    assert found.rule == "restored_on_some_workers"
    others = [f"worker:{k}" for k in range(many) if k not in fresh]
    began = " and ".join(f"worker:{k}" for k in fresh)
    assert f"variables of {' and '.join(others)} have gone on from those of step 4, and {began} began" in found.text
    assert "the journal" not in found.text


@pytest.mark.parametrize(
    ("fresh", "reduced"), [((), True), ((0, 1), True), ((), False)], ids=["right", "all fresh", "not reduced"]
)
def test_other_mistakes_are_left_alone(fresh: tuple[int, ...], reduced: bool) -> None:
    """All workers that began alike, whatever they did then."""
    found = _explained(fresh, reduced=reduced)
    assert found is None or found.rule != "restored_on_some_workers"


def _journal(process: Process, others: list[Process]) -> Saves:
    """A process has restored, and others have not."""
    event = SaveEvent(*process, True, "ckpt-4", 0, 1.0, 2.0, complete=True, sound=True)
    return Saves((event,), {}, dict.fromkeys([process, *others], ("ckpt-4.index",)))


def test_the_journal_says_what_was_restored_where() -> None:
    """It is part of the text, and enough where the values are too close to tell."""
    found = present(_explained((1,), saves=_journal((1, "worker:0", 0), [(1, "worker:1", 0)])))
    assert "As the journal has it, worker:0 restored 'ckpt-4', worker:1 nothing." in found.text
    assert "is_chief" in found.text


def test_workers_that_count_from_the_beginning_do_all_steps_again() -> None:
    """One of which has restored; without the journal it is only known that something had been restored."""
    before: list[Process] = [(0, "worker:0", 0), (0, "worker:1", 0), (0, "worker:1", 2)]
    found = present(_explained((1,), saves=_journal((0, "worker:0", 1), before), anew=True))
    assert found.rule == "restored_on_some_workers"
    assert "worker:0 restored 'ckpt-4', worker:1 nothing" in found.text
    unknown = _explained((1,), anew=True)
    assert unknown is None or unknown.rule != "restored_on_some_workers"
