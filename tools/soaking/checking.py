"""What has to hold after each case of the soak, whatever was drawn."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.report.history import first_difference, history
from harness.report.timeline import read_timeline
from tools.soaking.cases import ABIDING, Case
from tools.soaking.running import Seen

# The words for what was not one of the tasks.
_OURS = {"lockstep", "network"}
_HELPERS = ("relay", "keeper", "forkserver", "adopter")
_LACKING, _FAILED, _USAGE = 4, 3, 2


class Wrong(msgspec.Struct, frozen=True):
    """What did not hold: which of the invariants, and what was seen instead."""

    invariant: str
    text: str


def wrong_with(case: Case, seen: Seen) -> list[Wrong]:
    """All that does not hold of a case."""
    return [Wrong(invariant, text) for invariant, text in _all(case, seen)]


def _all(case: Case, seen: Seen) -> Iterator[tuple[str, str]]:
    if seen.code is None:
        yield "ends", f"it did not end: {seen.stderr[-500:]}"
        return
    yield from (("nothing left", left) for left in seen.left)
    if "Traceback (most recent call last)" in _said(case, seen):
        ours = any(f"/{package}/" in seen.stderr for package in ("_lockstep", "harness", "simulator"))
        if not ours and seen.struck and (case.limit is not None or case.blow is not None):
            return  # Python itself was interrupted before it had begun with Lockstep
        yield "no traceback", seen.stderr[-3000:]
    killed = case.blow is not None and case.blow.target == "lockstep" and seen.struck
    if killed and case.blow is not None:
        number = signal.Signals[case.blow.signal]
        if seen.code in (-number, 128 + number):
            began = (seen.folder / "0" / "journal.jsonl").exists()
            if case.blow.signal != "SIGKILL" and seen.code > 0 and seen.outcome is None and began:
                yield "outcome told", f"nothing was printed: {seen.stderr[-500:]}"
            yield from _kept(seen, None)
            return
    outcome = seen.outcome
    if outcome is None:
        # Before anything ran it was refused, for want of what a limit has taken.
        if case.limit is None or seen.code not in (_LACKING, _FAILED) or not seen.stderr.strip():
            yield "outcome told", f"exit code {seen.code}: {seen.stderr[-1000:]}"
        return
    yield from _agrees(case, seen, outcome)
    yield from _kept(seen, outcome)
    if case.limit is None or not seen.struck:
        yield from _cause(case, seen, outcome)
    elif not _is_true_under_limit(case, outcome):
        yield "true cause", f"{_failure(outcome)} for a limit of Lockstep's: {outcome['error']}"


def _said(case: Case, seen: Seen) -> str:
    """What Lockstep itself wrote: the end of a task's log is shown where that failed, and only TensorFlow's has any."""
    text = seen.stderr if case.program != "tensorflow" else seen.stderr.partition("--- ")[0]
    return text.partition("--- Python stacks")[0]


def _agrees(case: Case, seen: Seen, outcome: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Exit code and data say the same."""
    well = outcome["ended_well"]
    if (seen.code == 0) is not (well is True and "cannot be kept" not in seen.stderr):
        yield "agreement", f"exit code {seen.code}, ended_well {well}: {seen.stderr[-500:]}"
    if (outcome["error"] is None) is not (well is True):
        yield "agreement", f"ended_well {well}, error {outcome['error']}"
    if outcome["root_cause"] is not None and outcome["root_cause"]["message"].partition("\n")[0][:80] not in str(
        outcome["error"]
    ):
        yield "agreement", f"root cause {outcome['root_cause']}, error {outcome['error']}"


def _kept(seen: Seen, outcome: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    """What was kept can be read, and says the same; or there is nothing."""
    file, journal = seen.folder / "run.json", seen.folder / "0" / "journal.jsonl"
    if file.exists():
        try:
            kept = msgspec.json.decode(file.read_bytes())
        except msgspec.DecodeError as error:
            yield "results readable", f"{file.name}: {error}"
            return
        if outcome is not None and outcome["ended_well"] is not None and "cannot be kept" not in seen.stderr:
            for key in ("ended_well", "root_cause", "tasks"):
                if kept.get(key) != outcome[key]:
                    yield "agreement", f"{key}: run.json has {kept.get(key)}, {outcome[key]} was printed"
    if journal.exists():
        yield from _journal(journal, outcome)


def _journal(path: Path, outcome: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    try:
        events = [msgspec.json.decode(line) for line in path.read_bytes().split(b"\n")[:-1]]
    except msgspec.DecodeError as error:
        yield "results readable", f"{path.name}: {error}"
        return
    ends = [event["how"] for event in events if event["event"] == "end"]
    if outcome is None or not ends or outcome["ended_well"] is None:
        return
    if (ends == ["finished"]) is not outcome["ended_well"]:
        yield "agreement", f"the journal ends with {ends}, ended_well {outcome['ended_well']}"


# -- the cause


def _cause(case: Case, seen: Seen, outcome: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Whether it ended as it had to, and what is blamed is to blame."""
    blow = case.blow if seen.struck else None
    expected = _expected(case)
    allowed = [expected]
    if blow is not None and blow.target in _HELPERS:
        # Before the tasks were there, nothing of theirs is the cause; what fails once is not answered any more.
        allowed += [(task, None) for task in ("", *_OURS, *([] if expected is None else [expected[0]]))]
        if case.program == "exits_once":
            allowed.append((f"worker:{case.which}", "Exit"))
    elif blow is not None and blow.target == "worker":
        allowed += [("worker:*", "Signal")]
        if case.restarts:
            allowed.append(None)
        if case.program == "exits_once":  # the restarts may have been spent
            allowed.append((f"worker:{case.which}", "Exit"))
    elif blow is not None and blow.target == "lockstep":
        allowed.append(("", None))  # it was told to stop when it had its outcome
    found = _failure(outcome)
    if not any(_is(found, each) for each in allowed):
        yield "true cause", f"{found} instead of {' or '.join(map(str, allowed))}: {outcome['error']}"


def _is_true_under_limit(case: Case, outcome: dict[str, Any]) -> bool:
    """Whether it ended as without the limit, or what is blamed is Lockstep, which has it, and nobody who killed it."""
    found, text = _failure(outcome), str(outcome["error"])
    if _is(found, _expected(case)) or (case.program == "exits_once" and _is(found, (f"worker:{case.which}", "Exit"))):
        return True
    if found is None:
        return False
    # Its log is on the small disk, too.
    met = case.limit is not None and case.limit.what == "disk_bytes" and "there is no room left" in text
    blamed = text.partition("\n")[0]  # what was a consequence may have been killed
    return met or (found[0] in ("", *_OURS) and "killed" not in blamed)


def _failure(outcome: dict[str, Any]) -> tuple[str, Any] | None:
    """Who is blamed and for what; None if it has ended well."""
    cause = outcome["root_cause"]
    if outcome["ended_well"]:
        return None
    return ("", outcome["error"]) if cause is None else (cause["task"], cause["kind"])


def _is(found: tuple[str, Any] | None, allowed: tuple[str, str | None] | None) -> bool:
    if found is None or allowed is None:
        return found is allowed
    (task, kind), (wanted, kinds) = found, allowed
    same = wanted == task or (wanted == "worker:*" and task.startswith("worker:"))
    return same and kinds in (None, kind)


def _expected(case: Case) -> tuple[str, str | None] | None:
    """Task and kind of the root cause without a blow; None if it ends well."""
    task = f"worker:{case.which}"
    if case.program in ("exits", "crashes"):
        return task, "Exit" if case.program == "exits" else "Signal"
    if case.program == "exits_once":
        return None if case.restarts else (task, "Exit")
    if case.program in ("hangs", "stops"):
        return task, "Hang"
    assert case.program in (*ABIDING, "talks", "sh", "tensorflow")
    killed = [fault for fault in case.faults if fault.startswith("kind=kill") and "restart=" not in fault]
    if killed and case.workers == 1 and not case.restarts:
        return task, "NotFinished"
    return None


def other_history(one: Seen, other: Seen) -> list[Wrong]:
    """Where two runs of one case part, if they do."""
    first, second = (seen.folder / "0" / "journal.jsonl" for seen in (one, other))
    difference = first_difference(history(first), history(second), read_timeline(first))
    return [] if difference is None else [Wrong("same history", str(difference))]
