"""The directory of a run that is judged: one that the user named, which holds nothing else, or a temporary one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from simulator.machines.local.scratch import scratch
from simulator.out import NotKept, OutDirectory

VERDICT = "verdict.json"
SUMS = "SHA256SUMS"
# All that a run leaves: see `harness.evidence.parts`, `harness.saved_run`, `harness.evidence.links` and
# `harness.evidence.corrupt_values`.
_ENTRIES = ("interrupted", "kept", "links.json", "reference", "run", "struck.json", "traces", SUMS, VERDICT)
_JOURNALS = ("run/*/journal.jsonl", "interrupted/run/*/journal.jsonl")
JUDGED = (
    *("links.json", "struck.json", VERDICT, "traces/**/*", "reference/**/*"),
    *("interrupted/*", "interrupted/traces/**/*", *_JOURNALS),
)
"""Patterns of what is judged or shown when the run is read again."""
_HALVES = ("traces/**/*.part", "interrupted/traces/**/*.part")
"""Steps during which their process was killed, see `harness.evidence.steps.store`."""


def is_run(directory: Path) -> bool:
    """Whether a directory without a marker holds a run of `verify` and nothing else."""
    return (
        directory.is_dir()
        and all(path.name in _ENTRIES for path in directory.iterdir())
        and any(found for pattern in _JOURNALS for found in directory.glob(pattern))
    )


def holds_verdicts(directory: Path) -> bool:
    """Whether a directory without a marker holds nothing but runs, one for each strategy."""
    return all(is_run(path) for path in directory.iterdir())


def run_directory(out: str | Path, option: str = "out") -> OutDirectory:
    """The directory of one run."""
    return OutDirectory(out, is_run, option=option)


def check_out(out: str | Path | None) -> None:
    """Fail before anything starts if what the user named is not for a run.

    Raises:
        UsageError: it holds something else, or cannot be written to.
    """
    if out is not None:
        run_directory(out).check()


@contextlib.contextmanager
def opened_run(out: str | Path | None) -> Iterator[Path]:
    """The directory that the user named, made if need be and without an earlier run, or one that is gone afterwards.

    Raises:
        UsageError: as `check_out`.
        NotKept: what the run left could not be written there.
    """
    if out is None:
        with scratch("verify") as path:
            yield path
        return
    place = run_directory(out)
    place.make()
    try:
        with place.held():
            place.renew(*_ENTRIES)
            yield place.path
    except OSError as error:
        if error.filename is None or not Path(error.filename).is_relative_to(place.path):
            raise
        raise NotKept(place.path, error) from error
    finally:
        for half in (half for pattern in _HALVES for half in place.path.glob(pattern)):
            half.unlink()
        place.unmake()
