"""Checkpoints survive a crash at any point of a save; damage to them is an error, never garbage or a new start."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from scenarios.programs.checkpoints import crashing, cutting, damaging, filecalls, formats, full_disk, judging
from simulator import Cluster, Topology
from simulator.capabilities import probe

HOLDS = pytest.mark.skipif(bool(filecalls.why_not()), reason=filecalls.why_not() or "-")
SLOW = {
    "CheckpointManager, tf_keras, mirrored",
    "Keras 3 BackupAndRestore",
    "guarded tf_keras .h5",
    "tf_keras .keras",
    "tf_keras BackupAndRestore",
    "tf_keras SavedModel",
    "tf_keras save_weights",
}
# Killed at every file call in the quick profile too, but cut and damaged only in the full one.
ALSO_SLOW = {"CheckpointManager, Keras 3, mirrored", "guarded Keras 3 .keras"}
# Formats that write over the old state, by the upstream issue.
LOSING = {
    "Checkpoint.write": "tf-checkpoint-write-over",
    "tf_keras save_weights": "tf-checkpoint-write-over",
    "tf_keras SavedModel": "tf-checkpoint-write-over",
    "Keras 3 .keras": "keras3-save-in-place",
    "Keras 3 .weights.h5": "keras3-save-in-place",
    "Keras 3 BackupAndRestore": "keras3-save-in-place",
    "Keras 3 BackupAndRestore, double": "keras3-double-checkpoint",
    "tf_keras .keras": "tf-keras-save-in-place",
    "tf_keras .h5": "tf-keras-save-in-place",
}
# What not every Keras has.
SINCE = {"Keras 3 BackupAndRestore, double": "3.7"}
FRESH_START = "tf-latest-checkpoint-none"
NO_CHECKSUMS = "keras-h5-no-checksums"


def _cells(names: Iterable[str], issues: dict[str, str] | None = None, slow: Iterable[str] = ()) -> list[Any]:
    """One cell for each format, with its known issue; the slow ones only in the full profile."""
    cells: list[Any] = []
    for name in names:
        marks: list[Any] = [pytest.mark.full] if name in {*SLOW, *slow} else []
        if issues and name in issues:
            marks.append(pytest.mark.known_issue(issues[name]))
        if name in SINCE:
            lacking = Version(version("keras")) < Version(SINCE[name])
            marks.append(pytest.mark.skipif(lacking, reason=f"Keras has this from {SINCE[name]} on"))
        cells.append(pytest.param(name, marks=marks, id=name))
    return cells


def _full(config: pytest.Config) -> bool:
    return bool(config.getoption("--profile") == "full")


@pytest.fixture
def machine() -> Iterator[Cluster]:
    """A cluster of one task with two logical devices."""
    with Cluster(Topology(devices="cpu:2"), timeout=120) as cluster:
        yield cluster


# -- killed at every point


@HOLDS
@pytest.mark.parametrize("name", _cells(formats.ATOMIC))
def test_killed_at_any_file_call_the_old_or_the_new_state_is_left(machine: Cluster, name: str, tmp_path: Path) -> None:
    """First the old state is restored, from some call on the new one, both complete, and nothing else ever."""
    outcomes = [point.outcome for point in crashing.every_point(machine, name, tmp_path)]
    assert outcomes == sorted(outcomes, key=judging.GOOD.index)
    assert set(outcomes) == {judging.OLD, judging.NEW}


@HOLDS
@pytest.mark.parametrize("name", _cells(LOSING, LOSING))
def test_written_over_the_old_state(machine: Cluster, name: str, tmp_path: Path) -> None:
    """A save to the same path has points at which neither state can be restored; `guarded` formats have none."""
    points = crashing.every_point(machine, name, tmp_path)
    bad = [point for point in points if point.outcome not in judging.GOOD]
    problems = [f"{len(bad)} of {len(points)} points of the save leave neither state, first {bad[0]}"] if bad else []
    machine.run(judging.tell, problems)


@HOLDS
def test_the_named_phases_are_real(machine: Cluster, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Killed for good in each phase, a save leaves just the files that its copy shows, and the same can be restored."""
    points = crashing.every_point(machine, "CheckpointManager", tmp_path / "copied")
    phases = crashing.phases_of(points)
    assert list(phases) == list(crashing.PHASES)
    numbers = range(len(points) - 1) if _full(request.config) else list(phases.values())[1::3]
    for number in numbers:
        folder = tmp_path / f"killed-{number}"
        killed = crashing.killed_at(machine, "CheckpointManager", folder, number)
        assert _without_random(killed.call) == _without_random(points[number].call)
        assert killed.outcome == points[number].outcome
        assert crashing.same_files(folder / "saved", tmp_path / "copied" / "points" / str(number))


def _without_random(call: str) -> str:
    return re.sub(r"tempstate\d+|tmp[0-9a-f]{32}", "*", call)


@HOLDS
def test_a_broken_saver_is_caught(machine: Cluster, tmp_path: Path) -> None:
    """If the `checkpoint` file names the new checkpoint first, a crash in between starts again at step 0 or raises."""
    outcomes = {point.outcome for point in crashing.every_point(machine, "state file first", tmp_path)}
    torn = {outcome for outcome in outcomes if outcome.startswith("raised OpError")}
    assert torn
    assert outcomes - torn == {judging.OLD, judging.FRESH, judging.NEW}


# -- out of space


@pytest.mark.parametrize(
    "name",
    _cells((name for name in formats.ATOMIC if "asynchronous" not in name), slow=ALSO_SLOW),
)
def test_out_of_space_at_any_byte(machine: Cluster, name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A save cut at a byte raises and leaves the old state; with space again, the same process saves the new one."""
    count = 120 if name == "CheckpointManager" else 30
    *cut, last = cutting.cuts(machine, name, tmp_path, count if _full(request.config) else 8, seed=1)
    assert {one.outcome for one in cut} == {judging.OLD}
    assert cutting.NOTHING not in {one.said for one in cut}
    assert (last.said, last.outcome) == (cutting.NOTHING, judging.NEW)


@pytest.mark.known_issue("tf-async-checkpoint-late-error")
def test_out_of_space_in_an_asynchronous_save(machine: Cluster, tmp_path: Path) -> None:
    """The old state is left, but `save` and `sync` report success; the next save raises the error of this one."""
    *cut, _ = cutting.cuts(machine, "CheckpointManager, asynchronous", tmp_path, 8, seed=1)
    assert {one.outcome for one in cut} == {judging.OLD}
    silent = sum(one.said == cutting.NOTHING for one in cut)
    machine.run(judging.tell, [f"{silent} of {len(cut)} failed saves reported success"] if silent else [])


def test_killed_in_the_middle_of_a_file(machine: Cluster, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A process that dies at a byte of a file leaves it cut just there, and the old state."""
    for byte in cutting.offsets(20 if _full(request.config) else 2, 2000, seed=3):
        cut = cutting.die_at(machine, "CheckpointManager", tmp_path / str(byte), byte)
        assert cut.outcome == judging.OLD
        lengths = {path.stat().st_size for path in (tmp_path / str(byte) / "saved").rglob("*.tempstate*")}
        assert byte in lengths


@pytest.mark.full
def test_a_full_disk(machine: Cluster, tmp_path: Path) -> None:
    """On a full file system a save raises and leaves the old state; with space again, the next save works."""
    if not probe()["user_namespaces"].available:
        pytest.skip("a small tmpfs of one's own needs user namespaces, which this machine refuses")
    command = [sys.executable, "-m", full_disk.__name__, str(tmp_path)]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", *command],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "said").read_text() == "ResourceExhaustedError"
    directories = [tmp_path / "full", tmp_path / "after"]
    outcomes = judging.outcomes(machine, "CheckpointManager", directories, tmp_path / "outcomes.jsonl")
    assert outcomes == [judging.OLD, judging.NEW]


# -- damaged


def _seeds(config: pytest.Config) -> range:
    return range(20) if _full(config) else range(4)


def _unnoticed(harms: Iterable[damaging.Harm]) -> list[str]:
    return sorted({f"{h.kind} {h.file}: {h.outcome}" for h in harms if h.outcome in {judging.FRESH, judging.GARBAGE}})


@pytest.mark.parametrize(
    "name", _cells((name for name in formats.ATOMIC if name.startswith("guarded")), slow=ALSO_SLOW)
)
def test_damage_is_noticed(machine: Cluster, name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Whatever is done to the newest state, the guard restores it unharmed, or the one before, or raises."""
    harms = damaging.sweep(machine, name, tmp_path, _seeds(request.config))
    assert _unnoticed(harms) == []
    assert {harm.outcome for harm in harms} >= {judging.OLD}


@pytest.mark.parametrize(
    "name",
    _cells(
        (
            "CheckpointManager",
            "tf_keras BackupAndRestore",
            "Checkpoint.write",
            "tf_keras save_weights",
            "tf_keras SavedModel",
        )
    ),
)
def test_damaged_tensors_are_noticed(
    machine: Cluster, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Damage to the data and index files of TensorFlow's format raises or changes nothing; a lost index is below."""
    harms = [
        harm
        for harm in damaging.sweep(machine, name, tmp_path, _seeds(request.config))
        if harm.file in {"data", "index"} and (harm.file, harm.kind) != ("index", "remove")
    ]
    assert _unnoticed(harms) == []
    assert {harm.outcome for harm in harms if harm.file == "data"}.isdisjoint(judging.GOOD)
    assert {harm.kind for harm in harms} >= {"flip_bit", "truncate", "zero_block", "empty", "remove"}
    assert name != "CheckpointManager" or "swap" in {harm.kind for harm in harms}


@pytest.mark.known_issue(FRESH_START)
@pytest.mark.parametrize("name", _cells(("CheckpointManager", "tf_keras BackupAndRestore")))
def test_a_lost_index_or_state_file(machine: Cluster, name: str, tmp_path: Path) -> None:
    """Without the index, or with a missing, stale or unreadable `checkpoint` file, a script starts again at step 0."""
    harms = damaging.sweep(machine, name, tmp_path, range(3))
    machine.run(judging.tell, _unnoticed(harms))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("Keras 3 .weights.h5", marks=pytest.mark.known_issue(NO_CHECKSUMS)),
        pytest.param("tf_keras .h5", marks=[pytest.mark.known_issue(NO_CHECKSUMS), pytest.mark.full]),
        pytest.param(
            "Keras 3 BackupAndRestore, double", marks=[pytest.mark.known_issue(NO_CHECKSUMS), pytest.mark.full]
        ),
        pytest.param("Keras 3 .keras"),
        pytest.param("tf_keras .keras"),
    ],
)
def test_damaged_keras_files(machine: Cluster, name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Archives have checksums, which a damaged one fails; HDF5 files have none and are restored as garbage."""
    harms = damaging.sweep(machine, name, tmp_path, _seeds(request.config))
    machine.run(judging.tell, [line for line in _unnoticed(harms) if not line.startswith("remove")])
