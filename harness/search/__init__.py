"""Searches for plans of faults that a training does not survive."""

from harness.search.outcome import Outcome
from harness.search.pytest_file import write_test
from harness.search.search import Found, Hunt, Search
from harness.search.shrinking import Acceptance
from harness.search.trial import Subject, subject_of, survives
from simulator.faults import describe_plan

__all__ = [
    "Acceptance",
    "Found",
    "Hunt",
    "Outcome",
    "Search",
    "Subject",
    "describe_plan",
    "subject_of",
    "survives",
    "write_test",
]
