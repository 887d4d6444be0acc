"""Law `resumes_exactly` and the rules about resuming, on synthetic runs: each mistake is named by its own rule only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.observed import per_epoch
from harness.evidence.parts import Part, Parts
from harness.evidence.reference import Reference
from harness.evidence.trace import ClientTrace, Final, RunTrace, Step
from harness.judging.align.cases import interrupted_case
from harness.judging.explain import all_rules
from harness.judging.interruption import Interruption
from harness.judging.laws import Case
from harness.judging.laws.resumes_exactly import LAW
from harness.judging.verdict import Verdict
from harness.verify import judge
from tests._present import present
from tests.harness._traces import client, step, variable

RULES = ("data_reordered", "data_restarted", "restarted_from_scratch", "slots_not_restored")
STEPS, AT, SAVED = 8, 5, 4
F64 = np.ndarray[Any, Any]


class _Training:
    """Least squares with momentum or Adam, in float64: `state` is everything that a checkpoint would hold."""

    def __init__(self, adam: bool = False) -> None:
        self.adam = adam
        self.state: dict[str, F64] = {"w": np.array([1.0, -2.0, 0.5, 3.0])}
        self.forget_slots()
        self.state["iteration"] = np.array(0)

    def forget_slots(self) -> None:
        for kind in ("m", "v") if self.adam else ("momentum",):
            self.state[f"w/{kind}"] = np.zeros(4)

    def do(self, number: int, batch: int | None = None) -> Step:
        """One step, recorded as `number`; its data and epoch are those of step `batch`."""
        batch = batch or number
        rows = np.random.default_rng(batch).standard_normal((6, 4))
        error = rows @ self.state["w"] - rows.sum(axis=1)
        gradient = rows.T @ error / 6
        self.state["iteration"] = self.state["iteration"] + 1
        self._update(gradient, int(self.state["iteration"]))
        ids = tuple(range(6 * batch, 6 * batch + 6))
        return step(number, loss=(error**2).mean(), variables=dict(self.state), examples=(ids,), epoch=(batch - 1) // 4)

    def _update(self, gradient: F64, time: int) -> None:
        if not self.adam:
            self.state["w/momentum"] = 0.9 * self.state["w/momentum"] - 0.1 * gradient
            self.state["w"] = self.state["w"] + self.state["w/momentum"]
            return
        self.state["w/m"] = 0.9 * self.state["w/m"] + 0.1 * gradient
        self.state["w/v"] = 0.99 * self.state["w/v"] + 0.01 * gradient**2
        first, second = self.state["w/m"] / (1 - 0.9**time), self.state["w/v"] / (1 - 0.99**time)
        self.state["w"] = self.state["w"] - 0.05 * first / np.sqrt(second)

    def end(self) -> Final:
        return Final(99.0, (variable("w", self.state["w"]),))


def _resumed(mistake: str, adam: bool) -> list[Step]:
    """What the resumed process records, counted from 1; it restores what was saved after step 4, or should."""
    training = _Training(adam)
    if mistake == "scratch":
        return [training.do(number) for number in range(1, STEPS + 1)]
    for number in range(1, (SAVED if mistake != "skips" else AT) + 1):
        training.do(number)
    if mistake == "slots":
        training.forget_slots()
    if mistake == "counter":
        training.state["iteration"] = np.array(0)
    if mistake == "variables":
        training.state["w"] = training.state["w"] + 1
    if mistake == "loop":
        return [training.do(number) for number in range(1, STEPS + 1)]
    if mistake == "fresh":  # the number of steps was restored, and nothing else
        training = _Training(adam)
    restarted = mistake in ("data", "fresh")
    if mistake in ("order", "swapped"):  # steps 3 and 4 again, and never 7 and 8; or merely 8 before 7
        batches = (3, 5, 4, 6) if mistake == "order" else (6, 5, 8, 7)
        return [training.do(number, batch) for number, batch in enumerate(batches, start=1)]
    last = {"short": 2, "skips": STEPS - AT - 1}.get(mistake, STEPS - SAVED)
    behind = 0 if restarted else SAVED + (2 if mistake == "skips" else 0)
    return [training.do(number, number + behind) for number in range(1, last + 1)]


def _trace(steps: list[Step], final: Final | None, **counters: Any) -> RunTrace:
    return RunTrace((client(*steps, task="local:0", final=final, **counters),))


def _case(mistake: str = "", adam: bool = False, keep: tuple[str, ...] = ("variables", "loss", "examples")) -> Case:
    """A run killed after step 5 and resumed at step 4; only some observables are kept."""
    training = _Training(adam)
    reference = _trace([training.do(number) for number in range(1, STEPS + 1)], training.end())
    after = _resumed(mistake, adam)
    runs = [_keeping(run, keep) for run in (reference, _trace(after, training.end()))]
    return _interrupted(_keeping(_trace([*reference.clients[0].steps[:AT]], None), keep), runs[1], runs[0])


def _interrupted(before: RunTrace, after: RunTrace, reference: RunTrace, at: int = AT) -> Case:
    found = Interruption(
        at=at,
        before=before,
        recorded=len(after.clients[0].steps),
        in_epochs=per_epoch(after, reference),
        reference=reference,
        resume_strategy="synthetic",
        saved=("ckpt-4.index",),
    )
    return interrupted_case(after, Reference(reference), found)


def _judged(case: Case) -> Verdict:
    """The verdict on both parts of such a case."""
    found = present(case.interruption)
    steps = tuple(msgspec.structs.replace(step, index=k) for k, step in enumerate(case.run.clients[0].steps, start=1))
    last = RunTrace((msgspec.structs.replace(case.run.clients[0], steps=steps),))
    parts = Parts(last, (Part(found.before, found.at, found.at),), found.saved, must_resume=True)
    return judge(parts, Reference(found.reference), program="p", tasks={}, seconds=0.0)


def _keeping(run: RunTrace, keep: tuple[str, ...]) -> RunTrace:
    weights_only = "variables" not in keep

    def kept(found: Step) -> Step:
        changes: dict[str, Any] = {name: None for name in ("loss", "examples") if name not in keep}
        if weights_only:
            changes["variables"] = tuple(item for item in found.variables or () if item.name == "w")
        return msgspec.structs.replace(found, **changes)

    clients = [msgspec.structs.replace(one, steps=tuple(map(kept, one.steps))) for one in run.clients]
    return RunTrace(tuple(clients))


def _named(case: Case) -> set[str]:
    """Every rule about resuming that fits, whatever comes first."""
    return {rule.id for rule in all_rules() if rule.id in RULES and rule.explain(case) is not None}


@pytest.mark.parametrize("adam", [False, True])
@pytest.mark.parametrize(
    ("mistake", "rules"),
    [
        ("", set()),
        ("scratch", {"restarted_from_scratch"}),
        ("fresh", {"restarted_from_scratch", "data_restarted"}),
        ("slots", {"slots_not_restored"}),
        ("counter", {"slots_not_restored"}),
        ("data", {"data_restarted"}),
        ("loop", {"data_restarted"}),
        ("order", {"data_reordered"}),
        ("swapped", {"data_reordered"}),
        ("variables", set()),
        ("skips", set()),
        ("short", set()),
    ],
)
def test_each_mistake_is_named_by_its_own_rule_only(mistake: str, rules: set[str], adam: bool) -> None:
    """Of two that fit, the first in order is the explanation: a run from scratch has restarted its data, too."""
    case = _case(mistake, adam)
    assert _named(case) == rules
    verdict = _judged(case)
    assert bool(verdict) == (not mistake), str(verdict)
    if rules:
        assert present(verdict.explanation).rule == max(rules)


@pytest.mark.parametrize("adam", [False, True])
@pytest.mark.parametrize("mistake", ["", "slots", "data", "variables", "skips"])
def test_without_slots_the_first_update_tells(mistake: str, adam: bool) -> None:
    """Only the loss and the model's variables were reported."""
    expected = {"slots_not_restored"} if mistake == "slots" else set()
    assert _named(_case(mistake, adam, keep=("loss",))) == expected


def test_an_uninterrupted_run_is_not_for_these_rules() -> None:
    """The same numbers without an interruption are none of their business, nor the law's."""
    case = replace(_case("slots"), interruption=None)
    assert _named(case) == set()
    assert not LAW.concerns(case)


@pytest.mark.parametrize(
    ("mistake", "at", "texts"),
    [
        ("", 4, []),
        ("scratch", 0, ["began again at step 1"]),
        ("short", 5, ["recorded 2 steps: 1 step was never done", "5 of 5 variables differ"]),
        ("variables", 4, ["resumed at step 4 (step 5 was done again), 2 of 3 variables differ"]),
        ("loop", 0, ["began again at step 1", "(steps 1 to 5 were done again)"]),
    ],
)
def test_the_law_says_where_it_resumed(mistake: str, at: int, texts: list[str]) -> None:
    """By the end of the run, and never later than the interruption."""
    case = _case(mistake)
    assert present(case.interruption).resumed_at == at
    judgement = LAW.judge(case)
    assert judgement.status == ("broken" if texts else "held")
    for text, finding in zip(texts, judgement.findings, strict=True):
        assert text.replace("5 of 5", "3 of 3") in finding.text


def test_more_steps_than_the_training_has_are_found() -> None:
    """Done once too often at the end."""
    training = _Training()
    steps = [training.do(number) for number in range(1, STEPS + 2)]
    reference = _trace(steps[:STEPS], None)
    judgement = LAW.judge(_interrupted(_trace(steps[:AT], None), _trace(steps, None), reference))
    assert "recorded 9 steps, more than the whole reference" in judgement.findings[0].text


def test_what_was_wrong_before_the_interruption_is_explained_as_such() -> None:
    """Findings name the part; the rules about resuming are not asked about the first one."""
    case = _case("slots")
    assert case.interruption is not None
    first = case.interruption.before.clients[0]
    doubled = step(2, loss=99.0, variables={}).loss
    steps = tuple(msgspec.structs.replace(found, loss=doubled) if found.index == 2 else found for found in first.steps)
    before = RunTrace((msgspec.structs.replace(first, steps=steps),))
    case = replace(case, interruption=replace(case.interruption, before=before))
    verdict = _judged(case)
    assert present(verdict.first_divergence).text.startswith("before the interruption, step 2, loss: observed 99.0")
    assert verdict.explanation is None or verdict.explanation.rule not in RULES


def _epochs(reference: RunTrace, first: int) -> ClientTrace:
    """A Keras callback's record of the ends of epochs of four steps, from an epoch on (from 0)."""
    ends = [found for found in reference.clients[0].steps if found.index % 4 == 0][first:]
    numbered = [msgspec.structs.replace(found, index=k + 1, examples=None) for k, found in enumerate(ends)]
    return client(*numbered, task="chief:0", final=reference.clients[0].final, per_epoch=True)


@pytest.mark.parametrize(("epoch", "at"), [(0, 0), (1, 4)])
def test_epochs_are_aligned_with_the_reference(epoch: int, at: int) -> None:
    """A resumed run that recorded only ends of epochs resumed at the end of one."""
    case = _case()
    full = present(case.interruption).reference
    marked = [msgspec.structs.replace(found, epoch_end=found.index % 4 == 0) for found in full.clients[0].steps]
    reference = _trace(marked, full.clients[0].final)
    found = _interrupted(_trace(marked[:AT], None), RunTrace((_epochs(reference, epoch),)), reference)
    assert present(found.interruption).resumed_at == at
    verdict = _judged(found)
    assert bool(verdict) == (at > 0), str(verdict)


def test_examples_in_another_order_are_listed() -> None:
    """Those that were repeated, and those that nobody has seen; a mere change of order says so."""
    repeated, swapped = (_judged(_case(mistake)).explanation for mistake in ("order", "swapped"))
    assert repeated is not None
    assert swapped is not None
    assert "in 4 of 4 resumed steps" in repeated.text
    assert "12 examples (ids 18, 19" in repeated.text
    assert "12 examples (ids 42, 43" in repeated.text
    assert "each was consumed as often as by the reference" in swapped.text
