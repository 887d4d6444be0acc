"""Numbers that faults of the plan have changed: the fault is named for what came of it, and for nothing else."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from harness import verify
from harness.cli import _lockstep
from harness.evidence.corrupt_values import CorruptValue, read_corrupt_values
from harness.evidence.parts import Part, Parts
from harness.evidence.reference import Reference
from harness.evidence.trace import Array, RunTrace, Variable
from harness.judging.explain import Explanation, explain
from harness.judging.judge import judge_parts
from harness.judging.laws import Case, judge_all
from harness.judging.laws.protocol import StruckAt
from harness.saved_run import load_run
from harness.search import survives
from harness.verify import judge
from simulator import FaultPlan
from simulator.faults import Bitflip, Fault, Kill, Nan
from tests.harness._replicated import case
from tests.harness._resumable import training
from tests.harness._traces import client, step

RULE = "corrupted_by_fault"


def _strike(
    target: str = "variable", after: int = 2, name: str = "kernel", value: float = 3.0, was: float = 0.5
) -> StruckAt:
    element = 4 if name == "kernel" else 1
    fault = f"nan worker:1 step={after}"
    return StruckAt(
        CorruptValue(fault, "worker:1", 0, after, target, f"{name}:0", 1, element, repr(was), repr(value)), after
    )


def _struck(
    strike: StruckAt, mistake: str = "", of_case: StruckAt | None = None, without: str = "", **options: Any
) -> Case:
    """A case of two replicas where this was changed on the second; `of_case` is what the case knows of it."""
    struck = strike.struck
    # A gradient is changed in the step after the last one that was recorded before.
    at = strike.after + (struck.target == "gradient")
    name = struck.variable.partition(":")[0]
    made = case(2, mistake, **options)
    changed = case(2, mistake, strike=(struck.target, at, 1, name, struck.element, float(struck.after)), **options)
    run, reference = (_without(trace, without) for trace in (changed.run, made.reference))
    return replace(made, run=run, reference=reference, struck=(of_case or strike,))


def _without(run: RunTrace, observable: str) -> RunTrace:
    if not observable:
        return run
    steps = tuple(msgspec.structs.replace(each, **{observable: None}) for each in run.clients[0].steps)
    return RunTrace((msgspec.structs.replace(run.clients[0], steps=steps),))


def _explained(case: Case) -> Explanation | None:
    assert any(judgement.status == "broken" for judgement in judge_all(case))
    return explain(case)


# Each optimizer and each variable with all the rest, but not each with each: that would say nothing new.
@pytest.mark.parametrize(("name", "optimizer"), [("kernel", "sgd"), ("bias", "momentum"), ("kernel", "adam")])
@pytest.mark.parametrize("target", ["gradient", "variable"])
@pytest.mark.parametrize("value", [math.nan, 3.0, 1e30], ids=str)
@pytest.mark.parametrize("without", ["", "loss", "gradients", "variables"])
def test_a_changed_number_is_named(target: str, value: float, name: str, without: str, optimizer: str) -> None:
    """Task, step, variable, element and both values, whatever else was recorded."""
    found = _explained(_struck(_strike(target, name=name, value=value), without=without, optimizer=optimizer))
    assert found is not None
    assert found.rule == RULE
    what = f"the gradient of variable '{name}:0'" if target == "gradient" else f"variable '{name}:0'"
    when = "in step 3" if target == "gradient" else "after step 2"
    number = f"element {4 if name == 'kernel' else 1} of {what} on its replica 1 was 0.5 and became {value!r}"
    assert f"changed a number in worker:1 {when}: {number}." in found.text
    assert "Nothing is wrong before; the first that can show it is recorded at step " in found.text


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        ("mean_then_sum", "loss_times_replicas"),
        ("sum_then_mean", "loss_divided_by_replicas"),
        ("mean_of_means", "mean_of_replica_means"),
        ("not_reduced", "gradients_not_reduced"),
    ],
)
@pytest.mark.parametrize("target", ["gradient", "variable"])
def test_what_was_wrong_before_is_not_the_faults(target: str, mistake: str, rule: str) -> None:
    """The negative control: a mistake from step 1 on is named by its rule, although a number is changed later."""
    # Only unequal parts show that their means were averaged.
    sizes = (7 if mistake == "mean_of_means" else 12, 12, 12, 12)
    found = _explained(_struck(_strike(target), mistake, sizes=sizes))
    assert found is not None
    assert found.rule == rule


def test_a_gradient_does_not_change_the_loss_of_its_own_step() -> None:
    """That is computed before it: a loss that is wrong in the step of the fault is a mistake."""
    found = _explained(_struck(_strike("gradient", after=0), "mean_then_sum"))
    assert found is not None
    assert found.rule == "loss_times_replicas"


def test_other_examples_do_not_come_of_a_number() -> None:
    """Where the first thing wrong is which examples were read, no changed number is the reason."""
    struck = _struck(_strike())
    steps = list(struck.run.clients[0].steps)
    steps[2] = msgspec.structs.replace(steps[2], examples=((1, 2), (3, 4)))
    run = RunTrace((msgspec.structs.replace(struck.run.clients[0], steps=tuple(steps)),))
    found = _explained(replace(struck, run=run))
    assert found is not None
    assert found.rule.startswith("examples_")


def test_without_a_changed_number_no_fault_is_named() -> None:
    """The same wrong numbers without a fault, as after a kill, which changes none."""
    found = _explained(replace(_struck(_strike()), struck=()))
    assert found is None or found.rule != RULE


def test_a_change_elsewhere_is_only_suspected() -> None:
    """The first wrong number comes later than the change could be seen: named when no rule fits, and with a doubt."""
    found = _explained(_struck(_strike(after=3), of_case=_strike(after=1)))
    assert found is not None
    assert found.rule == RULE
    assert "which the records do not prove" in found.text


@pytest.mark.parametrize(
    ("changed", "known"),
    [
        (_strike("gradient"), _strike("gradient", name="bias")),
        (_strike("variable"), _strike("variable", value=0.5 + 1e-12)),
    ],
    ids=["another variable", "too small a change"],
)
def test_a_change_that_does_not_fit_is_only_suspected(changed: StruckAt, known: StruckAt) -> None:
    """Something is wrong in the very step, but not what was changed, or by more than that."""
    found = _explained(_struck(changed, of_case=known))
    assert found is not None
    assert found.rule == RULE
    assert "which the records do not prove" in found.text


def test_a_later_mistake_that_has_a_rule_is_not_the_faults() -> None:
    """A bit that changed nothing to speak of, and then an update that one copy missed."""
    right = case(2, optimizer="sgd")
    steps = list(right.run.clients[0].steps)
    then, now = ({each.name: each for each in steps[k].variables or ()} for k in (2, 3))
    stale = tuple(
        msgspec.structs.replace(value, copies=(value.copies[0], then[name].copies[1])) for name, value in now.items()
    )
    steps[3] = msgspec.structs.replace(steps[3], variables=stale)
    run = RunTrace((msgspec.structs.replace(right.run.clients[0], steps=tuple(steps)),))
    found = _explained(replace(right, run=run, struck=(_strike(after=1, value=0.5 + 1e-12),)))
    assert found is not None
    assert found.rule == "update_lost"


def _drifting(case: Case) -> Case:
    """The case, where from step 3 on one number of the kernel's second copy has another last bit."""

    def drift(value: Variable) -> Variable:
        array = value.copies[1].numpy().copy()
        array.flat[4] = np.nextafter(array.flat[4], np.float32(np.inf))
        return msgspec.structs.replace(value, copies=(value.copies[0], Array.of(array)))

    steps = list(case.run.clients[0].steps)
    for number in (2, 3):
        drifted = tuple(drift(each) if each.name == "kernel" else each for each in steps[number].variables or ())
        steps[number] = msgspec.structs.replace(steps[number], variables=drifted)
    return replace(case, run=RunTrace((msgspec.structs.replace(case.run.clients[0], steps=tuple(steps)),)))


def test_a_bit_below_the_bound_is_named_where_copies_show_it() -> None:
    """They are compared bit by bit. Without a fault, no update is said to be lost, since each copy is right."""
    drifting = _drifting(case(2))
    found = _explained(replace(drifting, struck=(_strike(value=0.5 + 2**-24),)))
    assert found is not None
    assert found.rule == RULE
    assert "variables 'kernel' differ" in found.text
    assert _explained(drifting) is None


def _count(done: range, off_from: int = 9) -> RunTrace:
    """A process that does these steps, whose value is wrong from one of them on."""
    steps = [
        step(index, loss=float(number), variables={"w": np.array([1.5 * number + (number >= off_from)])})
        for index, number in enumerate(done, start=1)
    ]
    return RunTrace((client(*steps, task="worker:1"),))


def _judged(first: range, last: range, off_from: tuple[int, int], strike: CorruptValue) -> Explanation | None:
    before, after = _count(first, off_from[0]), _count(last, off_from[1])
    here, later = (tuple(each for each in (strike,) if each.incarnation == number) for number in (0, 1))
    parts = Parts(after, (Part(before, len(first), len(first), here),), struck=later)
    judged = judge_parts(parts, Reference(_count(range(1, 9))))
    return explain(judged.case)


@pytest.mark.parametrize(
    ("incarnation", "done", "off_from", "named"),
    [
        (0, 3, (4, 9), True),  # lost with the process, which had resumed from before
        (0, 4, (9, 5), True),  # changed after step 4, saved there, and seen in the resumed part only
        (0, 5, (9, 5), False),  # changed after what was restored, so that it is no reason
        (1, 2, (9, 7), True),  # after the second step of the second process, which is step 6
        (1, 2, (9, 6), False),  # wrong before
    ],
)
def test_steps_of_a_process_that_was_started_again_are_the_references(
    incarnation: int, done: int, off_from: tuple[int, int], named: bool
) -> None:
    """A fault counts them anew; what it changed lives on only if it was in what the next process restored."""
    strike = CorruptValue("bitflip", "worker:1", incarnation, done, "variable", "w", 0, 0, "1.0", "2.0")
    found = _judged(range(1, 6), range(5, 9), off_from, strike)
    assert (found is not None and found.rule == RULE) is named


@pytest.mark.parametrize(("target", "done", "resumed"), [("variable", 0, 1), ("gradient", 4, 5)])
def test_what_was_never_saved_is_lost_with_its_process(target: str, done: int, resumed: int) -> None:
    """A fresh start has nothing of it, nor has what was restored anything of a step that was not done yet."""
    strike = CorruptValue("bitflip", "worker:1", 0, done, target, "w", 0, 0, "1.0", "2.0")
    found = _judged(range(1, 5), range(resumed, 9), (9, resumed), strike)
    assert found is None or found.rule != RULE


def _plan(*faults: Fault) -> FaultPlan:
    return FaultPlan(faults=faults)


@pytest.mark.full
def test_a_bit_of_a_real_variable_is_named(tmp_path: Path) -> None:
    """On the second worker, after a kill; judged again from the files, by the command and without TensorFlow."""
    flip = Bitflip("worker:1", target="variable", step=2, name="bias:0", element=1, bit=29)
    plan = _plan(Kill("worker:1", step=3), flip)
    verdict = verify(training(), "multi_worker-2", faults=plan, timeout=60, out=tmp_path)
    assert verdict.explanation is not None, str(verdict)
    assert verdict.explanation.rule == RULE
    (struck,) = read_corrupt_values(tmp_path)
    assert (struck.task, struck.target, struck.variable, struck.element) == ("worker:1", "variable", "bias:0", 1)
    number = f"element 1 of variable 'bias:0' on its replica 0 was {struck.before} and became {struck.after}."
    assert number in verdict.explanation.text
    assert verdict.to_json()["explanation"]["rule"] == RULE
    assert f"explanation: {RULE}: The fault bitflip worker:1 step=2" in " ".join(str(verdict).split())
    parts, reference, saved = load_run(tmp_path)
    kept: dict[str, Any] = {key: saved[key] for key in ("program", "tasks", "seconds", "faults")}
    assert str(judge(parts, reference, **kept)) == str(verdict)
    report = CliRunner().invoke(_lockstep, ["report", str(tmp_path)], standalone_mode=False)
    assert report.return_value == 1
    assert f"error[{RULE}]" in report.output


@pytest.mark.full
def test_a_gradient_of_a_real_program_is_named() -> None:
    """NaN on one of two replicas, and by the search's way to run a plan."""
    plan = _plan(Nan("local:0", step=4, name="out:0", element=2, replica=1))
    outcome = survives(training(), "mirrored-2", plan, timeout=60)
    assert outcome.symptom == "numbers"
    text = " ".join(outcome.text.split())
    assert (
        "changed a number in local:0 in step 4: element 2 of the gradient of variable 'out:0' on its replica 1" in text
    )
