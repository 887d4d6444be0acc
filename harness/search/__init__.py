"""Searches for plans of faults that a training does not survive."""

from harness.search.hunting import Found, Hunt, Search
from harness.search.judging import Subject, subject_of, survives
from harness.search.outcome import Outcome
from harness.search.shrinking import Acceptance
from harness.search.writing import write_test
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
