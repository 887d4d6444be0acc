"""What searches keep for those that follow: what was met is not met again, and what failed is tried first."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.search import Search, describe_plan
from harness.search.corpus import Corpus, name_of_corpus, read_corpus, write_corpus
from harness.search.outcome import PlanOutcome
from harness.search.plan_strategy import Space
from harness.search.profiles import profile_of
from harness.search.situations import Point, RunSituations
from simulator import FaultPlan, Topology, UsageError

POINTS = tuple(Point("local:0", 0, f"step:{number}") for number in range(1, 9))


def _search(corpus: Corpus, plans: int, weak: int = 0) -> tuple[Search, list[str]]:
    ran: list[str] = []

    def run(plan: FaultPlan) -> PlanOutcome:
        ran.append(describe_plan(plan))
        met = tuple(POINTS[int(fault.step or 1) - 1] for fault in plan.faults)
        return PlanOutcome("numbers" if weak and POINTS[weak - 1] in met else None, shown=RunSituations(POINTS, met))

    space = Space(Topology(), len(POINTS), ("kill",), profile_of("situations"), faults_max=1)
    search = Search(run, space, 60.0, plans=plans, points=POINTS, corpus=corpus)
    search.go()
    return search, ran


def test_a_search_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    """Eight situations in two searches of four plans; the page says how often each was met."""
    first, early = _search(read_corpus(tmp_path, "train"), plans=4)
    write_corpus(tmp_path, "train", first.corpus)
    second, late = _search(read_corpus(tmp_path, "train"), plans=4)
    assert len({*early, *late}) == 8
    assert second.hunt.coverage.missing == []
    write_corpus(tmp_path, "train", second.corpus)
    assert (tmp_path / "train.md").read_text().count("| 1 |") == 8
    again = read_corpus(tmp_path, "train")
    assert (again.coverage, again.pairs, again.plans) == (
        second.corpus.coverage,
        second.corpus.pairs,
        second.corpus.plans,
    )


def test_without_a_corpus_it_begins_anew() -> None:
    """The negative control: the same seed makes the same plans."""
    assert _search(Corpus(), plans=4)[1] == _search(Corpus(), plans=4)[1]


def test_what_failed_is_tried_first(tmp_path: Path) -> None:
    """Also after the repair, when all others have been met."""
    found, _ = _search(Corpus(), plans=8, weak=5)
    assert found.hunt.found is not None
    write_corpus(tmp_path, "train", found.corpus)
    _, ran = _search(read_corpus(tmp_path, "train"), plans=2)
    assert ran[0] == describe_plan(found.hunt.found.plan) == "kill local:0 step=5"
    assert ran[1] != ran[0]


def test_another_file_is_refused(tmp_path: Path) -> None:
    """It is not written over without a word."""
    (tmp_path / "train.json").write_text("[]")
    with pytest.raises(UsageError, match="is not what a search keeps there"):
        read_corpus(tmp_path, "train")


def test_functions_of_one_name_have_a_corpus_each() -> None:
    """A plan that one does not survive says nothing of the other."""
    names = {name_of_corpus(f"{file}.py:train", "mirrored-2") for file in ("a/train", "b/train", "a/other")}
    assert len(names) == 3
    assert all(name.isidentifier() for name in names)
    assert name_of_corpus("a/train.py:train", "mirrored-2") == name_of_corpus("./a/train.py:train", "mirrored-2")


def test_what_is_known_is_told_after_each_run() -> None:
    """Who is killed has it all the same."""
    told: list[int] = []
    search, _ = _search(Corpus(), plans=0)
    search.plans, search.learned = 4, lambda: told.append(search.hunt.plans)
    search.go()
    assert told == [1, 2, 3, 4]
