"""Searches for plans of faults that a training does not survive."""

from harness.search.outcome import PlanOutcome
from harness.search.pytest_file import write_test
from harness.search.search import FailingPlan, Hunt, Search
from harness.search.shrinking import Acceptance
from harness.search.trial import Subject, subject_of, survives
from simulator.faults import describe_plan

__all__ = [
    "Acceptance",
    "FailingPlan",
    "Hunt",
    "PlanOutcome",
    "Search",
    "Subject",
    "describe_plan",
    "subject_of",
    "survives",
    "write_test",
]
