"""Saved runs that are damaged, cut off, empty or hostile: one sentence that names the file, and exit code 2."""

from __future__ import annotations

import grp
import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.cli import _lockstep
from harness.cli._saved_job import Job, save_job
from harness.evidence.parts import read_parts
from harness.evidence.reference import Reference
from harness.evidence.trace import merge
from harness.evidence.writing import write_client
from harness.run_directory import SUMS, opened_run
from harness.saved_run import save_run
from harness.verify import judge
from simulator import FaultPlan, Topology
from tests.harness._journals import KILL, killed
from tests.harness._traces import client, step

Damage = Callable[[bytes], bytes]

DAMAGES: dict[str, Damage] = {
    "empty": lambda _: b"",
    "half": lambda data: data[: len(data) // 2],
    "a bit": lambda data: data[: len(data) // 3] + bytes([data[len(data) // 3] ^ 0x80]) + data[len(data) // 3 + 1 :],
    "zeros": lambda data: bytes(len(data)),
    "random": lambda data: bytes((17 * place + 201) % 256 for place in range(len(data))),
    "null": lambda _: b"null\n",
    "number": lambda _: b"5\n",
    "list": lambda _: b"[]\n",
    "object": lambda _: b"{}\n",
    "deep": lambda _: b"[" * 100_000 + b"]" * 100_000 + b"\n",
}


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(_lockstep, list(arguments))


def _refused(result: Result, named: str) -> None:
    """Exit code 2, and one sentence that names the file, or the directory that it is in."""
    assert result.exit_code == 2, (result.output, result.exception)
    said = result.stderr.partition("Error: ")[2]
    assert named in said
    assert said.count("\n") == 1
    assert "Traceback" not in result.output


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as `lockstep verify --out` leaves it."""
    directory = tmp_path_factory.mktemp("verified") / "out"
    trace = client(step(1, loss=0.5), step(2, loss=0.25, variables={"w": 1.0}), task="local:0")
    with opened_run(directory):
        (directory / "traces").mkdir()
        write_client(directory / "traces" / "local-0.trace", trace)
        killed().save(directory / "run" / "0", KILL)
        other = client(step(1, loss=0.5), step(2, loss=0.25, variables={"w": 1.0}), task="local:0", coarsest="float32")
        reference = Reference(merge([other]), ())
        save_run(directory, judge(read_parts(directory), reference, program="x", tasks={}, seconds=1.0), reference)
    return directory


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job as `lockstep run --out` leaves it."""
    directory = tmp_path_factory.mktemp("job")
    killed().save(directory / "0", KILL)
    plan = FaultPlan(topology=Topology(worker=2))
    asked = Job(command=(sys.executable, "-c", "raise SystemExit('it has started')"), cwd="/")
    save_job(directory, asked, plan, {"topology": "2 worker", "ended_well": True, "root_cause": None, "error": None})
    return directory


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], Path]:
    """A copy that can be damaged."""
    return lambda directory: Path(shutil.copytree(directory, tmp_path / "copy"))


def test_what_is_whole_is_read(verified: Path, job: Path) -> None:
    """The negative control of all tests below."""
    assert _run("report", str(verified)).exit_code == 0
    assert "consistent" in _run("report", str(verified)).stdout
    assert _run("report", str(job)).exit_code == 0


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["verdict.json", "traces/local-0.trace", "reference/plain.trace"])
def test_a_damaged_verification(verified: Path, copy: Callable[[Path], Path], file: str, damage: str) -> None:
    """The verdict, what was recorded, and what it is compared with."""
    directory = copy(verified)
    data = (directory / file).read_bytes()
    (directory / file).write_bytes(DAMAGES[damage](data))
    _refused(_run("report", str(directory)), str(directory))


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "object"])
@pytest.mark.parametrize("command", ["report", "replay"])
def test_a_damaged_journal(job: Path, copy: Callable[[Path], Path], command: str, damage: str) -> None:
    """Of one that was cut off within a line `report` shows what there is; its exit code says that it is not all."""
    directory = copy(job)
    journal = directory / "0" / "journal.jsonl"
    data = DAMAGES[damage](journal.read_bytes())
    journal.write_bytes(data)
    if command == "replay" and damage == "half":
        return  # a shorter history, with which that of another run is compared
    _refused(_run(command, str(directory)), str(journal))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["run.json", "plan.toml"])
def test_a_damaged_job_is_not_replayed(job: Path, copy: Callable[[Path], Path], file: str, damage: str) -> None:
    """Nothing of it starts."""
    directory = copy(job)
    data = DAMAGES[damage]((directory / file).read_bytes())
    (directory / file).write_bytes(data)
    result = _run("replay", str(directory))
    _refused(result, str(directory / file))
    assert "it has started" not in result.output


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("command", ["report", "diff"])
def test_a_damaged_matrix(tmp_path: Path, command: str, damage: str) -> None:
    """Also one without any cell, of which nothing can be said."""
    (tmp_path / "good.json").write_text('{"cells": [{"row": "test_a", "strategy": "default", "outcome": "ok"}]}')
    file = tmp_path / "matrix.json"
    data = (tmp_path / "good.json").read_bytes()
    if damage == "a bit":
        data = data.replace(b'"ok"', b'"oh"')
        file.write_bytes(data)
    else:
        file.write_bytes(DAMAGES[damage](data))
    _refused(_run(command, *([str(tmp_path / "good.json")] if command == "diff" else []), str(file)), str(file))


def test_a_directory_in_place_of_a_file(verified: Path, job: Path, tmp_path: Path) -> None:
    """Whatever reads it says so."""
    for number, (directory, file, command) in enumerate(
        [
            (verified, "verdict.json", "report"),
            (verified, "traces/local-0.trace", "report"),
            (job, "0/journal.jsonl", "report"),
            (job, "run.json", "replay"),
            (job, "plan.toml", "replay"),
        ]
    ):
        copied = Path(shutil.copytree(directory, tmp_path / str(number)))
        (copied / file).unlink()
        (copied / file).mkdir()
        _refused(_run(command, str(copied)), str(copied))


def _changed(thing: Any, value: object) -> Iterator[Any]:
    """The same with one value in it replaced, for each value."""
    if isinstance(thing, dict):
        for key, inner in thing.items():
            yield from ({**thing, key: other} for other in (value, *_changed(inner, value)))
    elif isinstance(thing, list):
        for place, inner in enumerate(thing):
            yield from ([*thing[:place], other, *thing[place + 1 :]] for other in (value, *_changed(inner, value)))


@pytest.mark.parametrize("value", ["\x1b[2J<b>", [[]]], ids=repr)
def test_any_value_of_a_journal_may_be_another(
    job: Path, copy: Callable[[Path], Path], value: object, tmp_path: Path
) -> None:
    """It is shown or refused, as text, data, page and trace; markup in it is escaped."""
    directory = copy(job)
    journal = directory / "0" / "journal.jsonl"
    lines = journal.read_text().splitlines()
    for number, line in enumerate(lines):
        for event in _changed(json.loads(line), value):
            journal.write_text("\n".join([*lines[:number], json.dumps(event), *lines[number + 1 :]]) + "\n")
            arguments = () if number % 3 else ("--html", str(tmp_path / "p.html"), "--trace", str(tmp_path / "t.json"))
            result = _run("report", str(directory), *arguments)
            assert result.exit_code in (0, 2), (event, result.output, result.exception)
            if (tmp_path / "p.html").exists():
                assert "<b>" not in (tmp_path / "p.html").read_text()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(place=st.floats(0, 1, exclude_max=True), new=st.binary(max_size=8), gone=st.integers(0, 8))
def test_any_bytes_of_a_trace_may_be_others(
    verified: Path, tmp_path_factory: pytest.TempPathFactory, place: float, new: bytes, gone: int
) -> None:
    """One sentence, and never another verdict."""
    directory = Path(shutil.copytree(verified, tmp_path_factory.mktemp("trace") / "copy"))
    file = directory / "traces" / "local-0.trace"
    data = file.read_bytes()
    at = int(place * len(data))
    changed = data[:at] + new + data[at + gone :]
    file.write_bytes(changed)
    result = _run("report", str(directory))
    if changed == data:
        assert result.exit_code == 0
    else:
        _refused(result, str(file))


def _swap(one: Path, other: Path) -> None:
    one.rename(one.with_suffix(".x"))
    other.rename(one)
    one.with_suffix(".x").rename(other)


def _shorten(file: Path) -> None:
    """To its first two frames: a trace like that of a process that was killed."""
    data, end = file.read_bytes(), 0
    for _ in range(2):
        end += 4 + int.from_bytes(data[end : end + 4], "little")
    file.write_bytes(data[:end])


TRACE = Path("traces", "local-0.trace")
UNLIKE_WHAT_WAS_SAVED: dict[str, Callable[[Path], object]] = {
    "truncated after a frame": lambda run: _shorten(run / TRACE),
    "swapped with the reference": lambda run: _swap(run / TRACE, run / "reference" / "plain.trace"),
    "one more": lambda run: shutil.copy(run / TRACE, run / "traces" / "local-1.trace"),
    "gone": lambda run: (run / TRACE).unlink(),
    "another verdict": lambda run: (run / "verdict.json").write_bytes(
        (run / "verdict.json").read_bytes().replace(b'"consistent": true', b'"consistent": false')
    ),
    "a journal": lambda run: (run / "run" / "0" / "journal.jsonl").write_text(""),
    "no checksums": lambda run: (run / SUMS).unlink(),
    "other checksums": lambda run: (run / SUMS).write_text((run / SUMS).read_text().replace("a", "b")),
    "checksums that are none": lambda run: (run / SUMS).write_bytes(b"\xff\x00"),
}


@pytest.mark.parametrize("what", UNLIKE_WHAT_WAS_SAVED)
def test_what_is_not_as_it_was_saved_is_never_judged(what: str, verified: Path, copy: Callable[[Path], Path]) -> None:
    """One sentence names the file, also where each file by itself could be read."""
    directory = copy(verified)
    assert _run("compare", str(directory), str(verified)).exit_code == 0
    UNLIKE_WHAT_WAS_SAVED[what](directory)
    _refused(_run("report", str(directory)), str(directory))
    _refused(_run("compare", str(verified), str(directory)), str(directory))


def test_the_checksums_are_those_of_sha256sum(verified: Path) -> None:
    """Whoever has the files can check them."""
    done = subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=verified, check=False)
    assert done.returncode == 0


# -- whose command it is


def test_the_command_of_somebody_else_is_shown_first(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can be asked it is not run; the command and whose it is are said."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    result = _run("replay", str(job))
    _refused(result, "add --yes if the command above is what you want to run")
    assert "belongs to root, not to you" in result.stderr or "not to you" in result.stderr
    assert "raise SystemExit" in result.stderr
    assert "\n  in /\n" in result.stderr


def test_a_directory_that_everybody_may_write_to_is_nobody_s(job: Path, copy: Callable[[Path], Path]) -> None:
    """What is in it need not be what its owner has put there; control characters are shown as such."""
    directory = copy(job)
    saved = json.loads((directory / "run.json").read_text())
    saved["job"]["command"][-1] = "\x1b[2Jhidden"
    (directory / "run.json").write_text(json.dumps(saved))
    (directory / "run.json").chmod(0o666)
    result = _run("replay", str(directory))
    _refused(result, "run.json can be written to by everybody")
    assert "\\x1b[2Jhidden" in result.stderr


def test_all_that_would_be_run_is_shown(job: Path, copy: Callable[[Path], Path]) -> None:
    """Commands that lead to machines, an interpreter there and what pulls cables are run as well; others instead of
    the saved ones if they are asked for.
    """
    directory = copy(job)
    saved = json.loads((directory / "run.json").read_text())
    saved["job"] |= {"machines": "evil {}:m0", "machines_python": "/evil/python", "machines_cable": "evil-cable {}"}
    (directory / "run.json").write_text(json.dumps(saved))
    (directory / "run.json").chmod(0o666)
    shown = _run("replay", str(directory)).stderr
    assert (
        "\n  on machines evil {}:m0\n  by the Python there /evil/python\n  with cables pulled by evil-cable {}" in shown
    )
    shown = _run("replay", str(directory), "--machines", "mine {}:m0").stderr
    assert "on machines mine {}:m0" in shown
    assert "evil" not in shown


def test_a_group_with_somebody_else_in_it_may_have_written_it(
    job: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group of one's own is no doubt, which is what many users have."""
    directory = copy(job)
    (directory / "run.json").chmod(0o664)
    monkeypatch.setattr("harness.cli.replay.carry_out", lambda *_, **__: pytest.fail("it has started"))
    found = grp.struct_group(("crew", "x", 4242, []))
    monkeypatch.setattr(grp, "getgrgid", lambda _: found)
    monkeypatch.setattr(pwd, "getpwall", list)
    with pytest.raises(pytest.fail.Exception, match="it has started"):
        CliRunner().invoke(_lockstep, ["replay", str(directory)], catch_exceptions=False)
    found = grp.struct_group(("crew", "x", 4242, ["mallory"]))
    _refused(_run("replay", str(directory)), "run.json can be written to by group crew")


def test_the_answer_is_no_or_yes(job: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal it is asked; --yes is the answer given before; one's own command runs without a question."""
    directory = copy(job)
    monkeypatch.setattr("harness.cli._trust._doubts", lambda _: iter(["it belongs to root, not to you"]))
    monkeypatch.setattr(
        "harness.cli._trust.sys", type("_Terminal", (), {"stdin": type("", (), {"isatty": lambda: True})})
    )
    monkeypatch.setattr("harness.cli.replay.carry_out", lambda *_, **__: pytest.fail("it has started"))
    no = CliRunner().invoke(_lockstep, ["replay", str(directory)], input="n\n")
    assert no.exit_code == 2
    assert "nothing was run" in no.stderr
    for arguments, answer in ((["--yes"], ""), ([], "y\n")):
        with pytest.raises(pytest.fail.Exception, match="it has started"):
            CliRunner().invoke(_lockstep, ["replay", str(directory), *arguments], input=answer, catch_exceptions=False)


def test_the_help_says_that_the_command_is_run() -> None:
    """Whoever reads it knows what a directory from somebody else can do."""
    text = " ".join(_run("replay", "--help").stdout.split())
    assert "This runs the command that is found there, as you" in text
    assert "--yes" in text
