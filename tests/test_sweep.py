"""The sweep of random trainings: what it draws, where it puts errors, and that it can tell found from missed."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from harness.evidence.observed import history
from harness.evidence.parts import TRACES, Parts
from harness.evidence.reference import Reference
from harness.evidence.trace import Array, ClientTrace, RunTrace, Step, Value, Variable
from harness.evidence.writing import write_client
from harness.saved_run import save_run
from harness.subject.strategies import strategy_case
from harness.verify import judge
from tests.harness._traces import Training, client, step
from tools import sweep
from tools.sweeping.cases import Case, family_names, says
from tools.sweeping.injecting import SIZE, Injection, NoEffect, grouped, injected, injections
from tools.sweeping.judging import Fate, Injected, Outcome, Result, errors_in
from tools.sweeping.table import failures, table, wrong

DEMANDED = {"closed_form", "columns", "crossing", "falling", "inputs", "large", "mixed", "moments", "rounding"}


def test_a_case_follows_from_its_family_and_seed() -> None:
    """The same seed draws the same plain numbers, another seed others, and a strategy that there is."""
    assert set(family_names()) > DEMANDED
    for family in family_names():
        drawn = [(case.strategy, case.numbers) for case in map(Case, [family] * 20, range(20))]
        assert drawn == [(case.strategy, case.numbers) for case in map(Case, [family] * 20, range(20))]
        assert len({msgspec.json.encode(numbers) for _, numbers in drawn}) > 15
        assert {strategy_case(strategy).name for strategy, _ in drawn} == {strategy for strategy, _ in drawn}
        assert says(family)


@pytest.mark.parametrize("family", family_names())
def test_programs_take_what_is_drawn_for_them(family: str) -> None:
    """Every program can be called with its numbers, has 3 to 12 steps, and is one that `verify` accepts."""
    for seed in range(20):
        case = Case(family, seed)
        assert case.program().name == f"{family}-{seed}"
        train = case.program().load()
        inspect.signature(train).bind(None, None)
        assert 3 <= case.numbers["steps"] <= 12
        divides = case.numbers["batch"] % 2 == 0
        assert divides or case.strategy != "multi_worker-2" or case.numbers["split"] == "slices"


def _at(step: int | None, observable: str, name: str, index: tuple[int, ...]) -> Injection:
    return Injection(observable, name, step, index, "smallest", "first", 1.0, 1.0)


def _changes(before: Any, after: Any) -> list[tuple[Array, Array]]:
    """Every pair of arrays in two records or runs that is not the same, where all else has to be."""
    if isinstance(before, Array) and isinstance(after, Array):
        return [] if before == after else [(before, after)]
    if isinstance(before, msgspec.Struct):
        pairs = [(getattr(before, name), getattr(after, name)) for name in before.__struct_fields__]
    elif isinstance(before, (tuple, list)):
        assert len(before) == len(after)
        pairs = list(zip(before, after, strict=True))
    else:
        assert before == after
        return []
    return [change for one, other in pairs for change in _changes(one, other)]


def _elements(changes: list[tuple[Array, Array]]) -> list[tuple[tuple[int, ...], float]]:
    """The index of each number that is changed, and how much of itself it has changed by."""
    found = []
    for before, after in changes:
        for index in map(tuple, np.argwhere(before.numpy() != after.numpy()).tolist()):
            found.append((index, float(after.numpy()[index] / before.numpy()[index] - 1)))
    return found


def test_an_error_changes_one_number_of_every_copy() -> None:
    """Two workers of two replicas: one number of each of the four copies at one step, and nothing else."""
    run = Training(clients=2, local_replicas=2, quadratic=True).run()
    changed = injected(run.clients, _at(2, "variables", "w", (3,)))
    found = _elements(_changes(list(run.clients), list(changed)))
    assert [index for index, _ in found] == [(3,)] * 4
    assert [size for _, size in found] == pytest.approx([SIZE] * 4, rel=1e-3)
    at_the_end = injected(run.clients, _at(None, "predictions", "y", (1,)))
    assert len(_elements(_changes(list(run.clients), list(at_the_end)))) == 2


def test_an_error_of_a_sum_is_in_one_part() -> None:
    """Of a loss that replicas reported in parts one part changes, by what makes the sum wrong by the error."""
    run = Training(clients=2, local_replicas=2, quadratic=True, per_replica_loss=True).run()
    changed = injected(run.clients, _at(1, "loss", "loss", ()))
    assert len(_changes(list(run.clients), list(changed))) == 1
    before, after = (history(each, "loss")[1]["loss"].array for each in (run, RunTrace(tuple(changed))))
    assert after / before - 1 == pytest.approx(SIZE, rel=1e-3)


def test_an_aggregate_changes_and_its_parts_do_not() -> None:
    """Of a variable that is read as an aggregate it is this that is compared, so it gets the error."""
    one, two, three = (Array.of(np.float32(number)) for number in (1, 2, 3))
    parts = Variable("seen", (one, two), "on_read", three)
    run = client(Step(index=1, at=0.0, variables=(parts,)), replicas=2)
    ((before, after),) = _changes([run], list(injected([run], _at(1, "variables", "seen", ()))))
    assert [float(each.numpy()) for each in (before, after)] == pytest.approx([3.0, 3.003])


def test_an_error_that_vanishes_is_none() -> None:
    """Of a zero, and where a value was not recorded, an error is refused."""
    run = client(step(1, loss=np.float32(0)))
    with pytest.raises(NoEffect, match=r"0\.0 is the same"):
        injected([run], _at(1, "loss", "loss", ()))
    with pytest.raises(NoEffect, match="not every client"):
        injected([run], _at(1, "metrics", "loss", ()))


def _many(index: int) -> Step:
    """Loss, a variable with a zero and a small number, and what gets no error: integers, and a coarse dtype."""
    coarse = Value("coarse", (msgspec.structs.replace(Array.of(np.array([1, 2], "float32")), dtype="bfloat16"),))
    found = step(
        index, loss=np.float32(index), variables={"w": np.array([5, 0, -1e-9, 3], "float32"), "count": np.int64(7)}
    )
    return msgspec.structs.replace(found, metrics=(coarse,))


def test_errors_go_to_the_smallest_number_at_four_moments() -> None:
    """The smallest number but zero and another one; first, middle and last step and the end; floating dtypes only."""
    final = Training().run().clients[0].final
    run = msgspec.structs.replace(client(*map(_many, range(1, 8))), final=final)
    found = injections(run, Random(3), 1000)
    smallest = [each for each in found if (each.name, each.element) == ("w", "smallest") and each.step is not None]
    assert {(each.moment, each.step) for each in smallest} == {("first", 1), ("middle", 4), ("last", 7)}
    assert {(each.index, each.expected, each.largest) for each in smallest} == {((2,), float(np.float32(-1e-9)), 5.0)}
    assert {each.name for each in found} == {"loss", "w", "y"}
    assert {each.moment for each in found if each.name == "y"} == {"end"}
    assert all(each.expected for each in found)
    few = injections(run, Random(3), 4)
    assert len(few) == 4
    assert few == injections(run, Random(3), 4)


def test_errors_that_are_judged_together_can_be_told_apart() -> None:
    """No two of one value, and of an observable as many as a law keeps findings of; none is lost."""
    wanted = [_at(number, "variables", name, ()) for number in (1, 2) for name in "abcde"]
    wanted += [_at(1, "loss", "loss", ())]
    groups = grouped(wanted, 3)
    assert sorted(map(repr, wanted)) == sorted(repr(each) for group in groups for each in group)
    for group in groups:
        assert len({(each.observable, each.name) for each in group}) == len(group)
        assert sum(each.observable == "variables" for each in group) <= 3


def _spread(run: RunTrace, size: float) -> RunTrace:
    """The rerun whose variable is off by so much of itself after each step; at the end it is not."""

    def moved(variable: Variable) -> Variable:
        if variable.name != "w":
            return variable
        numbers = variable.copies[0].numpy()
        return msgspec.structs.replace(variable, copies=(Array.of(numbers * numbers.dtype.type(1 + size)),))

    def changed(found: ClientTrace) -> ClientTrace:
        steps = [
            msgspec.structs.replace(each, variables=tuple(map(moved, each.variables or ()))) for each in found.steps
        ]
        return msgspec.structs.replace(found, steps=tuple(steps))

    return RunTrace(tuple(map(changed, run.clients)))


def _errors(directory: Path, spread: float) -> tuple[Injected, ...]:
    """What becomes of errors in a run that is right, where the variable of the reruns is off by so much."""
    base = Training(quadratic=True, steps=3)
    reruns = [_spread(replace(base, noise=seed).run(), spread) for seed in (1, 2, 3, 4)]
    reference = Reference(base.run(), tuple(reruns))
    run = replace(base, clients=2, local_replicas=2).run()
    verdict = judge(Parts(run), reference, program="synthetic", tasks={}, seconds=0.0)
    (directory / TRACES).mkdir(parents=True)
    for each in run.clients:
        write_client(directory / TRACES / f"{each.header.task.replace(':', '-')}.trace", each)
    save_run(directory, verdict, reference)
    assert not verdict.findings
    return errors_in(verdict, directory, directory.parent / "changed", Random(0), most=1000)


def test_errors_are_found_where_the_bound_is_tight_and_only_there(tmp_path: Path) -> None:
    """All errors in a run whose reruns hardly differ; not those in a variable that reruns have moved by a tenth."""
    tight, loose = _errors(tmp_path / "tight", 0.0), _errors(tmp_path / "loose", 0.1)
    assert {each.fate for each in tight if each.observable == "variables"} == {"caught"}
    caught = [each for each in tight if each.fate == "caught"]
    assert {each.observable for each in caught} == {"loss", "gradients", "variables", "predictions"}
    assert min(each.ratio or 0 for each in caught) > 1
    moved = {each.fate for each in loose if each.observable == "variables" and each.step is not None}
    assert moved
    assert "caught" not in moved
    assert not list(tmp_path.glob("changed*"))


def _result(family: str, *fates: Fate, outcome: Outcome = "consistent") -> Result:
    errors = tuple(
        Injected("loss", "loss", 1, (), "smallest", "first", 0.5, 0.5, fate, None if fate == "no effect" else 2.0)
        for fate in fates
    )
    return Result(family, 3, "mirrored-2", {}, outcome, "why", {"loss": 0.25}, injected=errors)


def test_the_table_counts_what_happened() -> None:
    """A row for each family and one for all; errors without an effect are not counted."""
    results = [_result("loop", "caught", "missed", "no effect"), _result("dense", "not judged", outcome="accused")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table(results).splitlines()]
    assert rows[2] == ["dense", "1", "1", "0", "0.25", "1", "0", "1 (100 %)", "0", "0", ""]
    assert rows[3] == ["loop", "1", "0", "0", "0.25", "2", "1 (50 %)", "0", "0", "1 (50 %)", "2"]
    assert rows[4] == ["all", "2", "1", "0", "0.25", "3", "1 (33 %)", "1 (33 %)", "0", "1 (33 %)", "2"]


def test_what_is_wrong_can_be_replayed() -> None:
    """Accused, failed or missed is wrong, and each paragraph has the options; abstained and not judged is not."""
    fine = [_result("loop", "caught", "not judged", "coarser"), _result("loop", outcome="abstained")]
    bad = [_result("loop", "missed"), _result("loop", outcome="accused"), _result("loop", outcome="failed")]
    assert not any(map(wrong, fine))
    assert all(map(wrong, bad))
    told = failures([*fine, *bad])
    assert len(told) == 3
    assert all("--family loop --seed 3" in each for each in told)
    assert "1 of 1 errors missed, the furthest from its bound: step 1, loss 'loss'[] = 0.5" in told[0]


def test_usage_errors_come_before_anything_runs(tmp_path: Path) -> None:
    """A family, a number or a place that there is not ends with exit code 2 and says what there is."""
    asked = {
        ("--family", "nonsense"): "'columns'",
        ("--count", "0"): "x>=1",
        ("--json", str(tmp_path / "no" / "x.json")): "there is no directory",
    }
    for arguments, said in asked.items():
        result = CliRunner().invoke(sweep.main, list(arguments))
        assert (result.exit_code, said in result.output) == (2, True), result.output


@pytest.mark.full
def test_a_real_case(tmp_path: Path) -> None:
    """A custom loop is run and is consistent, and the errors in what it has recorded are judged."""
    result = CliRunner().invoke(
        sweep.main, ["--family", "falling", "--seed", "1", "--jobs", "1", "--json", str(tmp_path / "sweep.json")]
    )
    assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
    (found,) = msgspec.json.decode((tmp_path / "sweep.json").read_bytes())["results"]
    assert found["outcome"] == "consistent", result.output
    assert any(each["fate"] == "caught" for each in found["injected"])
