"""`lockstep search`: what it prints, its exit codes, and the test that it writes."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import harness.search
from harness.cli.search import _done_there, _kept, search
from harness.search import PlanOutcome, subject_of, survives, write_test
from harness.search.situations import Point, RunSituations
from harness.subject.machines import OnMachines
from harness.subject.strategies import strategy_case
from simulator import FaultPlan
from tests.harness._called import json_of, lockstep, usage_error
from tests.harness._counting import TRAIN, train

__all__ = ["train"]

OPTIONS = (
    *("--strategy", "default", "--exact", "--kinds", "kill", "--faults", "1"),
    *("--timeout", "120", "--accept", "1/1"),
)


_search = partial(lockstep, "search")
_found = partial(json_of, "search", code=1)


@pytest.mark.full
def test_a_failing_plan_is_found_and_written_as_a_test_that_fails(train: str, tmp_path: Path) -> None:
    """Exit code 1; what is written fails for as long as the defect is there, and passes when it is not."""
    page = tmp_path / "page.html"
    out = ("--out", str(tmp_path / "found"), "--html", str(page))
    result = _search(f"{train}:forgetful", *OPTIONS, "--budget", "60s", *out, code=1)
    assert "kill local:0 step=1: survived (1 restart" in result.stderr
    assert "fails (1 of 1 runs): kill local:0 step=2" in result.stdout
    assert "error[restarted_from_scratch]" in result.stdout
    assert "record.directory held 1 file (steps)" in " ".join(result.stdout.split())
    written = tmp_path / "found" / "test_found_forgetful_default.py"
    assert f"written to {written}" in result.stdout
    shown = page.read_text()
    for told in (
        "error[restarted_from_scratch]",
        '<td class="wide">kill local:0 step=2</td><td class="FAIL">',
        "<svg",
        "--budget 60s",
    ):
        assert told in shown
    # What pytest collects from it is called here: a pytest of its own would import TensorFlow once more.
    test = _executed(written)["test_found_forgetful_default"]
    assert _collected(written) == [f"{written.name}::test_found_forgetful_default"]
    with pytest.raises(AssertionError, match="nothing was resumed"):
        test()
    Path(train).write_text(TRAIN.replace("restore=False", "restore=True"))
    test()


@pytest.mark.full  # test_search_jobs.py has them without processes
def test_two_jobs_find_and_shrink_it_alike(train: str, tmp_path: Path) -> None:
    """Real processes: the same least plan, a page with its timeline, and JSON that says how many jobs there were."""
    page = tmp_path / "page.html"
    out = ("--out", tmp_path / "found", "--html", page, "--jobs", "2")
    found = _found(f"{train}:forgetful", *OPTIONS, "--budget", "90s", *out)
    (fault,) = found["plan"]["fault"]
    assert (found["jobs"], found["symptom"], found["whole"]) == (2, "numbers", True)
    assert (fault["kind"], fault["step"]) == ("kill", 2)
    assert "<svg" in page.read_text()


def _executed(file: Path) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__file__": str(file), "__name__": "written"}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    return namespace


def _collected(file: Path) -> list[str]:
    plugins = ["-p", "harness.plugin", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *plugins]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [*command, file.name], cwd=file.parent, capture_output=True, text=True, timeout=120, check=True, env=environ
    )
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.full
def test_nothing_is_found_in_a_program_that_resumes(train: str, tmp_path: Path) -> None:
    """Exit code 0 when all plans there are have been tried; JSON has the counts, and nothing is written."""
    out = tmp_path / "found"
    found = json_of("search", f"{train}:train", *OPTIONS, "--budget", "60s", "--out", out)
    # A kill after each of five steps, and before each of the five writes of its file.
    assert (found["plans"], found["runs"], found["unfired"], found["plan"], found["test"]) == (10, 10, 0, None, None)
    assert (found["tried"], found["coverage"]["situations"], found["coverage"]["missing"]) == (10, 10, [])
    assert not out.exists()


@pytest.mark.parametrize(
    ("outcome", "budget", "code", "said"),
    [
        (
            PlanOutcome(),
            "1ms",
            5,
            "nothing was searched: the budget of 1ms was spent before a plan could be run; one run",
        ),
        (
            PlanOutcome(unfired=("it never came",)),
            "60s",
            5,
            "nothing was searched: no fault struck in 2 runs of 2 plans",
        ),
        (PlanOutcome(void="the relay ended"), "60s", 5, "nothing was searched: 2 of 2 runs were void"),
        (PlanOutcome(), "60s", 0, "no failing plan in 2 plans, 2 runs"),
    ],
)
def test_a_search_that_has_tried_nothing_abstains(
    train: str, monkeypatch: pytest.MonkeyPatch, outcome: PlanOutcome, budget: str, code: int, said: str
) -> None:
    """That nothing was found says nothing if no plan was run, or no fault struck; what would be needed is said."""
    case = strategy_case("default")
    subject = SimpleNamespace(
        case=case, steps=5, run=lambda plan, **_: outcome if plan.faults else PlanOutcome(seconds=2.0)
    )
    monkeypatch.setattr(harness.search, "subject_of", lambda *_, **__: subject)
    if budget != "1ms":  # which drawing takes, in earnest
        plan = FaultPlan(faults=(FaultPlan.parse_fault("kind=kill,task=local:0,step=1"),))
        monkeypatch.setattr("harness.search.search.drawn_plans", lambda *_: [plan, plan])
    result = _search(f"{train}:train", *OPTIONS, "--budget", budget, "--profile", "swarm", code=code)
    assert said in result.stdout
    assert ("no failing plan" in result.stdout) == (code == 0)


@pytest.mark.full
def test_json_of_a_failing_plan_has_the_plan(train: str, tmp_path: Path) -> None:
    """As data from which it can be made again, with what was wrong; a second test does not replace the first."""
    arguments = (f"{train}:twice", *OPTIONS, "--budget", "60s", "--out", tmp_path)
    first, second = (_found(*arguments) for _ in range(2))
    assert first["symptom"] == "numbers"
    assert "loss" in first["text"]
    assert first["plan"] == second["plan"]
    assert not survives(f"{train}:twice", "default", FaultPlan.from_mapping(first["plan"]), tier="exact")
    names = [Path(found["test"]).name for found in (first, second)]
    assert names == ["test_found_twice_default.py", "test_found_twice_default_2.py"]


def test_a_program_that_fails_undisturbed_is_not_searched(train: str) -> None:
    """Exit code 3, and why."""
    result = _search(f"{train}:broken", *OPTIONS, code=3)
    assert "not even undisturbed" in result.stderr


def test_a_program_that_is_wrong_without_a_fault_is_not_searched(train: str, tmp_path: Path) -> None:
    """Exit code 3 and the verdict, where any plan would have been blamed."""
    with Path(train).open("a") as file:
        file.write("\n\ndef differs(strategy, record):\n    record.step(loss=float(strategy.num_replicas_in_sync))\n")
    result = _search(f"{train}:differs", "--strategy", "mirrored-2", "--exact", "--out", tmp_path / "found", code=3)
    assert "fails under mirrored-2 without a fault" in result.stderr
    assert "error[loss_times_replicas]" in result.stderr
    assert not (tmp_path / "found").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--kinds", "kil"), "kind 'kil' is unknown"),
        (("--strategy", "default", "--kinds", "delay"), "strikes links"),
        (("--budget", "10"), "budget '10' is not understood"),
        (("--chaos", "soon"), "chaos 'soon' is not understood"),
        (("--accept", "3/2"), "write K/N"),
        (("--strategy", "nonsense"), "nonsense"),
        (("--machines", "ssh m0"), "--machines 'ssh m0' is not understood"),
        (("--files", "ship"), "files is about machines"),
        (("--strategy", "multi_worker-2", "--machines", "env {}:m0", "--kinds", "pause"), "the tasks are on others"),
        (("--strategy", "multi_worker-2", "--kinds", "machine_lost"), "it needs --machines, several of them"),
    ],
)
def test_wrong_options_are_usage_errors(options: tuple[str, ...], said: str, train: str) -> None:
    """Exit code 2 before anything runs."""
    assert said in usage_error("search", f"{train}:train", *options)


def test_an_interruption_shows_what_was_found(train: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that was being shrunk is written as it was drawn; without one the exit code is 130."""
    failed: list[FaultPlan] = []

    def run(self: object, plan: FaultPlan, **_: float) -> PlanOutcome:
        if failed:
            raise KeyboardInterrupt
        failed.extend([plan] * (len(plan.faults) > 1))
        return PlanOutcome(symptom="liveness" if failed else None, text="it hung")

    monkeypatch.setattr(harness.search.Subject, "run", run)
    options = ("--strategy", "default", "--exact", "--accept", "1/1", "--out", tmp_path / "found")
    result = _search(f"{train}:train", *options, code=1)
    assert "interrupted; what was found so far:" in result.stderr
    assert "fails (not shrunk): " in result.stdout
    assert "it hung" in result.stdout
    assert len(list((tmp_path / "found").glob("*.py"))) == 1
    _search(f"{train}:train", *options, code=130)


def test_a_written_test_names_its_program_from_where_it_lies(train: str, tmp_path: Path) -> None:
    """So a repository with both can be moved; the plan in it is the plan, and options are kept."""
    plan = FaultPlan.from_mapping(
        {"fault": [{"kind": "kill", "task": "local:0", "step": 3, "id": "it's"}], "heal": "5s"}
    )
    given = ("default", plan, PlanOutcome("numbers"), {"timeout": 30.0})
    file = write_test(tmp_path / "tests" / "found", f"{train}:train", *given)
    namespace = _executed(file)
    assert namespace["PLAN"] == plan
    assert Path(namespace["PROGRAM"].rpartition(":")[0]).samefile(train)
    assert "survives(PROGRAM, STRATEGY, PLAN, timeout=30.0)" in file.read_text()
    assert str(tmp_path) not in file.read_text()


def test_the_written_test_runs_as_the_search_did() -> None:
    """Every option of a run that the command has is an option of `survives`, and goes into the test if it was given."""
    given = {"timeout": 30.0, "restarts": 2, "restart_policy": "job", "slowness": "1m", "network": "namespaces"}
    machines = dict.fromkeys(OnMachines.__annotations__) | {"place": ()}
    assert _kept({**given, **machines, "exact": True}) == {**given, "tier": "exact"}
    assert _kept({**dict.fromkeys(given), **machines, "exact": False}) == {}
    over = {**machines, "machines": "ssh {}:m0,m1", "place": ("worker:0=m1",), "machines_python": "there/python"}
    assert _kept({**dict.fromkeys(given), **over, "exact": False}) == {
        "machines": "ssh {}:m0,m1",
        "place": {"worker:0": "m1"},
        "machines_python": "there/python",
    }
    options = {parameter.name for parameter in search.params}
    of_runs = options & set(inspect.signature(subject_of).parameters)
    # The command's seed is that of the plans that it draws.
    assert of_runs - {"program", "strategy", "seed", "machines"} == set(given)
    assert set(OnMachines.__annotations__) <= options


def test_what_was_about_to_be_done_is_told() -> None:
    """Of a file operation, which the plan knows by its number only; a step says it all."""
    points = (Point("local:0", 0, "phase:file_operation:4", "rename state.new to state"), None)
    assert _done_there(PlanOutcome(shown=RunSituations(met=points))).strip() == (
        "struck: at=file-op:4 (rename state.new to state) of local:0"
    )
    assert _done_there(PlanOutcome(shown=RunSituations(met=(Point("local:0", 0, "step:4"),)))) == ""
