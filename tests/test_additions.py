"""One file adds a kind of fault, a law, a rule, a cause, a strategy or a launcher: copies of the packages with one more
file of each know them everywhere, and nothing else was touched. docs/architecture.md links to these files.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests._installed import run_there

ROOT = Path(__file__).parent.parent
ADDITIONS = ROOT / "tests" / "additions"

_ASK = """
import sys
from pathlib import Path
import numpy as np
from harness.judging.explain import all_rules, explain
from harness.judging.explain.causes import all_causes
from harness.judging.laws import all_laws, judge_all
from harness.search.profiles import PROFILES, choose_kinds
from harness.subject.strategies import catalogue, strategy_case
from simulator import Cluster, FaultPlan, Topology
from simulator.faults import Hangup, canonical_history
from simulator.launch.niced import Niced

assert FaultPlan.parse_fault("kind=hangup,task=worker:0,step=1") == Hangup("worker:0", step=1)
assert "hangup" in choose_kinds((), Topology(worker=2))
assert 0 < PROFILES["realistic"].weights(["hangup", "preempt", "kill"])["hangup"]
assert "loss_falls" in [law.id for law in all_laws()]
assert "loss_negated" in [rule.id for rule in all_rules()]
assert "read_by_two" in [cause.id for cause in all_causes()]
assert "last_device-2" in [case.name for case in catalogue()]
assert str(strategy_case("last_device-4").topology.devices_of("local")) == "cpu:4"

def step(out):
    from simulator.agent import current
    current().step(1)
    return current().spec.incarnation

plan = FaultPlan(faults=[Hangup("worker:1", step=1, restart="0s")])
with Cluster(Topology(worker=2), preload=(), timeout=30, faults=plan, out="out") as cluster:
    assert cluster.run(step, None)["worker:1"].value == 1
fired = [line for line in canonical_history(Path("out/0/journal.jsonl")) if line.startswith("fault")]
assert fired == [
    "fault hangup-1: fired at step=1 of worker:1, ended={worker:1: SIGHUP}",
    "fault hangup-1: undone, restarted={worker:1: 1}",
], fired
command = Niced.of([sys.executable, "-c", "import os; raise SystemExit(os.nice(0))"])
with Cluster(Topology(worker=1), timeout=30) as cluster:
    cluster.expect("worker:0", exit=min(19, 5 + __import__("os").nice(0)))  # 19 is the most
    with cluster.start_with(command) as run:
        run.join()
"""
_VERIFY = """
from harness import verify

def train(strategy, record):
    import tensorflow as tf
    with strategy.scope():
        weight = tf.Variable(1.0)
    record.step(loss=weight * 2, variables=[weight])

verdict = verify(train, "last_device-2", tier="exact", timeout=60)
assert verdict and [law.law for law in verdict.judgements if law.law == "loss_falls"], str(verdict)
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with copies of the packages, and one more file of each kind."""
    for package in ("_lockstep", "harness", "simulator"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ADDITIONS.rglob("*.py"):
        place = tmp_path / file.relative_to(ADDITIONS)
        assert not place.exists()
        shutil.copy(file, place)
    return tmp_path


def _run(folder: Path, code: str) -> None:
    # Before what is installed; the folder of a script comes first.
    (folder / "ask.py").write_text(code)
    run_there(folder, sys.executable, "ask.py")


def test_one_more_file_is_known_everywhere(packages: Path) -> None:
    """A fault happens and is in histories and searches, a launcher runs a program, the others are found."""
    _run(packages, _ASK)


@pytest.mark.full
def test_one_more_strategy_and_law_are_verified(packages: Path) -> None:
    """TensorFlow builds the strategy in a task, and the law has its place in the verdict."""
    _run(packages, _VERIFY)


def test_the_page_links_to_each_of_them() -> None:
    """docs/architecture.md leads to every one of these files, as an example of its kind."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    files = [file.relative_to(ROOT) for file in ADDITIONS.rglob("*.py")]
    assert len(files) > 5
    assert [str(file) for file in files if f"(../{file})" not in page] == []


def test_without_the_file_nobody_knows_it() -> None:
    """The negative control."""
    done = run_there(ROOT, sys.executable, "-c", "from simulator.faults import Hangup", code=1)
    assert "cannot import name 'Hangup'" in done.stderr
