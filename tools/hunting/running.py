"""One hunt: plans are run against a training until one fails, and counted."""

from __future__ import annotations

import ast
import fnmatch
import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.request import Tier
from harness.search import Subject, describe_plan, subject_of
from harness.search.coverage_guided import Steering
from harness.search.plan_strategy import Space, drawn_plans
from harness.search.profiles import choose_kinds, profile_of
from harness.search.situations import Point
from simulator import FaultPlan

PROGRAMS = Path(__file__).resolve().parent / "programs"
PROFILES = ("situations", "swarm")
_STRATEGIES = {"workers": "multi_worker-2"}


class Hunting(msgspec.Struct, frozen=True):
    """What is hunted: a function of a file of `programs`, with a seed, by a profile."""

    file: str
    function: str
    profile: str
    seed: int

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{self.file}:{self.function}@{self.profile}/{self.seed}"


class Hunted(msgspec.Struct, frozen=True):
    """What came of it.

    Attributes:
        name: of the hunting.
        found: the number of the plan that failed, from 1; None if none did.
        plans: how many were run.
        seconds: for all of them, the reference included.
        plan: that failed, in words.
        symptom: of its outcome.
        text: of its outcome.
    """

    name: str
    found: int | None
    plans: int
    seconds: float
    plan: str = ""
    symptom: str = ""
    text: str = ""


def huntings(only: str, seeds: int, profiles: tuple[str, ...] = PROFILES) -> list[Hunting]:
    """All of them whose function matches, the profiles of one training and seed next to each other."""
    return [
        Hunting(file.stem, node.name, profile, seed)
        for seed in range(seeds)
        for file in sorted(PROGRAMS.glob("*.py"))
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        if fnmatch.fnmatchcase(node.name, only)
        for profile in profiles
    ]


def guilty(file: str, function: str) -> list[str]:
    """The lines of a training that are marked as guilty, without the mark."""
    text = (PROGRAMS / f"{file}.py").read_text()
    lines = text.splitlines()
    node = next(each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef) and each.name == function)
    own = [lines[number] for number in range(node.lineno, node.end_lineno or 0) if lines[number].endswith("# guilty")]
    marked = [line for line in lines if re.search(rf"# guilty: .*\b{function}\b", line)]
    return [line.partition("# guilty")[0].strip() for line in own + marked]


def result_of(hunting: Hunting, plans_max: int) -> Hunted:
    """Run at most so many plans, and stop at the first that fails.

    Raises:
        AssertionError: the training fails without a fault.
    """
    began = time.monotonic()
    strategy = _STRATEGIES.get(hunting.file, "default")
    # What is fitted without TensorFlow computes with binary fractions.
    tier: Tier = "exact" if hunting.file == "alone" else "derived"
    subject = subject_of(f"{PROGRAMS / hunting.file}.py:{hunting.function}", strategy, tier=tier, timeout=60.0)
    undisturbed = subject.run(FaultPlan())
    assert undisturbed, f"{hunting.name}: {undisturbed}"
    steering, plans = _source(subject, hunting, undisturbed.shown.passed)
    if steering is not None:
        steering.corpus.coverage.begin(undisturbed.shown)
    number = 0
    for plan in itertools.islice(plans, plans_max):
        number += 1
        outcome = subject.run(plan)
        if steering is not None:
            steering.learn(plan, outcome, fresh=steering.corpus.coverage.add(outcome.shown) > 0)
        if outcome.failed:
            seconds, words = time.monotonic() - began, describe_plan(plan)
            return Hunted(hunting.name, number, number, seconds, words, str(outcome.symptom), outcome.text)
    return Hunted(hunting.name, None, number, time.monotonic() - began)


def _source(
    subject: Subject, hunting: Hunting, points: tuple[Point, ...]
) -> tuple[Steering | None, Iterator[FaultPlan]]:
    """The plans, and who makes them if that one learns."""
    topology = subject.case.topology
    space = Space(topology, subject.steps, choose_kinds((), topology), profile_of(hunting.profile))
    if not space.profile.steered:
        return None, drawn_plans(space, hunting.seed)
    steering = Steering(space, points, hunting.seed)
    return steering, steering.plans()
