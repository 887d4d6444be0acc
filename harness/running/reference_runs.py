"""The runs that make up one reference: one without noise, some with, and another one without if need be."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from harness.errors import Abstained, NoRoom, NothingObserved, NotReproducible
from harness.evidence.checksums import not_as_saved, note_sums
from harness.evidence.independence import Touch, read_touched, reads_back
from harness.evidence.reproducibility import ROUNDING_SHARE_MAX, RecordDifference, first_difference
from harness.evidence.steps import FOR_ALL, Segment, Standing
from harness.evidence.trace import read_client
from harness.recording.client import Assignment
from harness.recording.scripts import CANNOT
from harness.running.clients import client_of, viewed
from harness.running.dependencies import keep_depends, still_the_same
from harness.subject.program import Program
from harness.subject.strategies import strategy_case
from simulator import Cluster, Run, RunFailed
from simulator.machines.local.host import cores

PLAIN = "plain"
OTHER_KERNELS = "other-kernels"
"""The run without noise whose products and convolutions are computed by TensorFlow's other kernels for CPUs.

Those of oneDNN are the default where the CPU has instructions for neural networks (TensorFlow's `DefaultOneDnnPolicy`,
tensorflow/core/util/port.cc). They sum in another order, and round coarse dtypes at other places.
"""
TF32 = "tf32"
"""The run without noise whose products and convolutions have factors of 10 bits, as `harness.recording.tf32` has it."""
_ONEDNN_VARIABLE = "TF_ENABLE_ONEDNN_OPTS"
_AGAIN, _EARLIER = "again", "earlier-"
_NOISE = "noise-"
_TRACES, _KEPT = "traces", "kept"
_TRACE = "local-0.trace"
_DONE = "done"
# By how much the clocks of the first run, and of those with noise but their opposites, are ahead: it is another second
# and another day for a second run without noise, and for the run that is to be judged.
_AHEAD_SECONDS = 100_000.0


@dataclass(frozen=True)
class Runs:
    """The runs of one reference, each in a folder of its own that says when it is complete.

    Attributes:
        program: what is run.
        directory: holds the folders.
        seed: of every run.
        timeout: seconds for each of them.
        threads: that TensorFlow's pools have, None for as many as there are.
        follows: the evidence of a run, which these follow.
        standing: how their replicas stand for the run's.
        hardware: what they compute on.
        noisy: whether some with noise may be wanted.
        apart: whether they draw otherwise than the run wherever the program leaves that open: by other seeds, and by a
            clock of another day.
        later: whether their clock is that of another day, and goes twice as fast.
        strategy: under which one replica runs.
        begun: those that are under way, by name; see `beside`.
    """

    program: Program
    directory: Path
    seed: int
    timeout: float
    threads: int | None = None
    follows: tuple[Segment, ...] = ()
    standing: Standing = FOR_ALL
    hardware: str = "cpu"
    noisy: bool = True
    apart: bool = False
    later: bool = False
    strategy: str = "default"
    begun: dict[str, Run] = field(default_factory=dict, compare=False)

    def trace(self, name: str) -> Path:
        """The trace file of a run."""
        return self._folder(name) / _TRACES / _TRACE

    def _folder(self, name: str) -> Path:
        return self.directory / (name if self.threads is None else f"{name}-{self.threads}-thread")

    def make(self, names: Sequence[str]) -> None:
        """Run those of these that are not there yet, at the same time; an interruption ends them all.

        Args:
            names: `noise-SEED` has noise, any other name has none.

        Raises:
            NothingObserved: the program reported nothing.
            NoRoom: the disk has none for them.
            RunFailed: it fails even on one device.
        """
        missing = self._missing(names)
        if PLAIN not in missing:
            _check_room(self.directory, len(missing) * self._size, "reruns of the reference are to be made")
        if self.hardware != "cpu" and len(missing) > 1:
            for name in missing:  # each may want the only GPU that there is
                self.make([name])
            return
        with contextlib.ExitStack() as stack:
            fresh = self._started([name for name in missing if name not in self.begun], stack)
            for name in missing:
                self._join(name, fresh[name] if name in fresh else self.begun.pop(name))

    @contextlib.contextmanager
    def beside(self, names: Sequence[str]) -> Iterator[None]:
        """Have these under way from now on, while the caller goes on and `make`s what it finds that it needs.

        What nobody has asked for by the end is ended.
        """
        with contextlib.ExitStack() as stack:
            self.begun.update(self._started(names, stack))
            stack.callback(self.begun.clear)
            yield

    def _started(self, names: Sequence[str], stack: contextlib.ExitStack) -> dict[str, Run]:
        """Runs that have begun, each of which the stack ends."""
        case = strategy_case(self.standing.strategy(self.strategy), self.hardware)
        found = {}
        live = [Path(store).parent for each in self.follows if each.live is not None for store in each.folders]
        timeout = self.timeout + sum(each.live.seconds for each in self.follows if each.live is not None)
        for name in names:
            cluster = stack.enter_context(Cluster(case.topology, timeout=timeout, env=self._environ(name)))
            assignment = self._assignment(name)
            view = stack.enter_context(viewed(self.program, self._folder(name), *live))
            work = (client_of(self.program), self.program, case, msgspec.structs.replace(assignment, view=view))
            found[name] = stack.enter_context(cluster.start(*work))
        return found

    def _join(self, name: str, run: Run) -> None:
        try:
            result = run.join()
        except RunFailed as failure:
            if failure.root_cause.kind == CANNOT:
                raise Abstained(failure.root_cause.message) from failure
            if failure.root_cause.kind == NoRoom.__name__:
                raise NoRoom(failure.root_cause.message) from failure
            follows = " that follows the run" if self.follows else ""
            during = f"the reference run{follows} ({self.strategy} strategy, one device)"
            raise RunFailed(failure.causes, failure.result, stacks=failure.stacks, during=during) from failure
        if not result["local:0"].value["observed"]:
            raise NothingObserved(self.program.name)
        folder, script = self._folder(name), None if self.program.script is None else self.program.script.path
        _complete(folder, read_touched(folder), script)

    def _environ(self, name: str) -> dict[str, str]:
        """Of the run with other kernels, those that the plain one, which was made before, has not used."""
        if name != OTHER_KERNELS:
            return {}
        return {_ONEDNN_VARIABLE: "0" if read_client(self.trace(PLAIN)).header.onednn else "1"}

    def _assignment(self, name: str) -> Assignment:
        folder = self._folder(name)
        shutil.rmtree(folder, ignore_errors=True)
        for inner in (_TRACES, _KEPT):
            (folder / inner).mkdir(parents=True)
        noise = int(name.removeprefix(_NOISE)) if name.startswith(_NOISE) else None
        ahead = _AHEAD_SECONDS if name == PLAIN or (noise is not None and noise > 0) else 0.0
        return Assignment(
            str(folder / _TRACES),
            str(folder / _KEPT),
            self.seed + self.apart,  # and TensorFlow is seeded by the program with another one too
            noise,
            threads=self.threads,
            ahead=ahead * (1 + (self.apart or self.later)),
            apart=self.apart,
            rate=1.0 + self.later,
            follows=self.follows,
            standing=self.standing,
            tf32=name == TF32,
            beside=1 + _RERUNS * self.noisy if name == PLAIN else 0,
        )

    def remove_unfinished(self) -> None:
        """Remove what runs have left that have not come to their end."""
        for trace in self.directory.glob(f"*/{_TRACES}"):
            if not (trace.parent / _DONE).exists():
                shutil.rmtree(trace.parent, ignore_errors=True)

    def _batches(self, names: Sequence[str]) -> Iterator[list[str]]:
        """Those that are missing, as many at a time as there are cores, and room on the disk."""
        missing = self._missing(names)
        most = 1 if missing and self.reads_back else cores()
        while missing:
            size = _fitting(self.directory, self._size, most)
            yield missing[:size]
            missing = missing[size:]

    @property
    def _size(self) -> int:
        """Bytes that a run without noise has recorded, and one with noise will have."""
        trace = self.trace(PLAIN)
        return trace.stat().st_size if trace.exists() else 0

    def difference(self) -> RecordDifference | None:
        """Run without noise a second time, and say where the two differ first; found once and then kept."""
        known = self._folder(_AGAIN) / "difference"
        if not known.exists() or not_as_saved(known.parent, [known]):
            self.make_apart([PLAIN, _AGAIN])
            found = first_difference(read_client(self.trace(PLAIN)), read_client(self.trace(_AGAIN)))
            known.write_bytes(msgspec.msgpack.encode(found))
            self.trace(_AGAIN).unlink()
            note_sums(known.parent, [known])
        return msgspec.msgpack.decode(known.read_bytes(), type=RecordDifference | None)

    def make_all(self, names: Sequence[str]) -> None:
        """`make` these, many at once, or one by one if the program reads what it writes."""
        for some in self._batches(names):
            self.make(some)

    def make_apart(self, names: Sequence[str]) -> None:
        """`make`, and again one after the other if these runs may have met in each other's files.

        What the first ones have written still counts as theirs.
        """
        missing = self._missing(names)
        try:
            self.make(missing)
        except RunFailed:
            written = [{each.path for each in self._touches(name) if each.writes} for name in missing]
            if not any(one & other for one, other in itertools.combinations(written, 2)):
                raise
        else:
            if len(missing) < 2 or not self.reads_back:
                return
        for name in missing:
            folder = self._folder(name)
            earlier = folder.with_name(f"{_EARLIER}{folder.name}")
            shutil.rmtree(earlier, ignore_errors=True)
            folder.rename(earlier)
        for name in missing:
            self.make([name])

    def _missing(self, names: Sequence[str]) -> list[str]:
        folders = {name: self._folder(name) for name in names}
        return [name for name, at in folders.items() if not _is_whole(at)]

    def _touches(self, name: str) -> tuple[Touch, ...]:
        return read_touched(self._folder(name))

    @property
    def reads_back(self) -> bool:
        """Whether the program reads a file that it writes, so that two runs of it must not be made at once."""
        folders = [path for path in self.directory.iterdir() if path.is_dir() and not path.name.startswith(_EARLIER)]
        return reads_back(read_touched(*folders))

    def touched(self) -> dict[str, Sequence[Touch]]:
        """What each of the runs has done with files, by what a sentence calls the run."""
        found: dict[str, Sequence[Touch]] = {}
        for folder in sorted(path for path in self.directory.iterdir() if path.is_dir()):
            touches = read_touched(folder)
            if folder.name.startswith(_EARLIER):
                found[f"an earlier run of the reference ({folder.name})"] = [each for each in touches if each.writes]
            else:
                rerun = "" if folder.name == PLAIN else f" ({folder.name})"
                found[f"the reference run{rerun}"] = touches
        return found


def _complete(folder: Path, touches: Sequence[Touch], script: str | None = None) -> None:
    """Note what a run has read and left, and that it has come to its end."""
    keep_depends(folder, touches, script)
    note_sums(folder, filter(Path.is_file, (folder / _TRACES).rglob("*")))
    (folder / _DONE).touch()


def _is_whole(folder: Path) -> bool:
    """Whether a run has come to its end, holds what it left, and would read what it read."""
    return (folder / _DONE).exists() and still_the_same(folder) and not_as_saved(folder) is None


def noisy(seed: int) -> str:
    """What the run with noise of this seed is called."""
    return f"{_NOISE}{seed}"


def reproducible(runs: Runs) -> tuple[Runs, str | None]:
    """The runs to be used, and where those on several threads differ.

    Raises:
        NotReproducible: those on a single thread differ too.
    """
    differing = runs.difference()
    if differing is None:
        return runs, None
    if differing.share > ROUNDING_SHARE_MAX:
        raise NotReproducible(differing.text)
    alone = replace(runs, threads=1)
    if (still := alone.difference()) is not None:
        raise NotReproducible(still.text)
    return alone, differing.text


# Whether a disk has room for what is about to be recorded, which is known once a plain run has been.


_RERUNS = 2
"""Traces of reruns with noise that a reference has after a first look."""


def _check_room(directory: Path, size: int, what: str) -> None:
    """Fail before a disk is full.

    Args:
        directory: on the disk.
        size: bytes that are about to be written there.
        what: they are, for a sentence.

    Raises:
        NoRoom: there are not as many.
    """
    if (free := _free(directory)) < size:
        raise NoRoom.of(str(directory), size, free, what)


def _fitting(directory: Path, size: int, most: int) -> int:
    """How many files of a size fit, at least 1 and at most so many: whether even that one does is another question."""
    return max(1, min(most, _free(directory) // max(1, size)))


def _free(directory: Path) -> int:
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize
