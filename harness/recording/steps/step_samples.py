"""The run's side of a long training: the evidence of some steps is left, and a digest of each of the others."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.evidence.digests import EXAMPLES, Digest, DigestWriter
from harness.evidence.saved_states import SavedState, leave
from harness.evidence.steps import StepEvidence, StepFileWriter, Stored
from harness.evidence.trace import Seen
from harness.recording.steps.call_numbers import Numbers, arrays_of, numbers_of
from harness.recording.steps.digest_operations import DigestOperations, digest_of_examples
from harness.recording.steps.evidence_of_run import Deliver, RunEvidenceWriter
from harness.recording.steps.protocol import StepBegin, StepEnd, Variables

_SHARE = 0.01
"""Of the time of a step, which two digests may take; else there is one, before the step."""
_LATELY = 16
"""So many steps tell how long a step takes, in the middle, and a digest, which others only delay, at the quickest."""

_FIRST_STEPS = 32
"""Of so many it is noted which function each of them called: a judge's script calls them in this order."""

_FUNCTIONS = 16
"""So many leave a step as they come: a program may make one for each step, of which not each is left."""


@dataclasses.dataclass(frozen=True)
class _Call:
    """What is called, and what it is given, as of `StepEvidence`."""

    function: str = ""
    numbers: Numbers = ()
    arrays: Mapping[int, Any] = dataclasses.field(default_factory=dict)
    is_fed: bool = False


class SampleWriter(RunEvidenceWriter):
    """Leaves the evidence of the first step, and of each whose number can be divided by `every`.

    Where a program has several functions in turns, these may be steps of one only. So a step is left too whose function
    has left none yet, or none for twice as many.

    A training never waits for it: while one is still being written, the next one is left out. Its number is that of the
    step among those that have come to their end and took gradients.

    Args:
        every: see above.
        writer: writes them, as soon as it knows where.
        note: hears a sentence where a step is left out.
        deliver: as of `RunEvidenceWriter`.
        deliver_digests: hands over those of what each local replica is given, at every step, if they can be made.
    """

    are_single = True

    def __init__(
        self,
        every: int,
        writer: StepFileWriter,
        note: Callable[[str], None],
        deliver: Deliver,
        deliver_digests: Callable[[Callable[[], Sequence[Any]]], None],
    ) -> None:
        super().__init__(writer, range(1), deliver)
        self._deliver_digests = deliver_digests
        self._every = every
        self._loose = writer
        self._note = note
        self._seen: Seen | None = None
        self._called = self._began = _Call()
        self._arrays: list[tuple[int, Stored]] = []
        self._order: list[str] = []
        self._is_due = self._is_wanted = self._has_saved = False
        self._latest: dict[str, int] = {}
        self._digests = DigestOperations()
        self._digested: DigestWriter | None = None
        self._given: DigestWriter | None = None
        self._begun: Sequence[Any] = ()
        self._left: Sequence[Any] = ()
        self._after_save: dict[str, int] = {}
        self._at = 0.0
        self._took: deque[float] = deque(maxlen=_LATELY)
        self._lasted: deque[float] = deque(maxlen=_LATELY)

    def into(self, folder: Path, room: int, replicas: range) -> None:
        """Know where to leave it, in how many bytes, and the numbers of the local replicas over all tasks."""
        self._digested, self._given = DigestWriter(folder), DigestWriter(folder, EXAMPLES)
        self._loose.folder, self._loose.room, self._replicas = folder, room, replicas

    def wants(self, number: int) -> bool:
        """See above."""
        if number == self._index:
            return self._is_wanted
        latest = self._latest.get(self._called.function)
        is_due = len(self._latest) < _FUNCTIONS if latest is None else number - latest >= 2 * self._every
        return self._loose.folder is not None and (is_due or number % self._every == 0)

    @property
    def function(self) -> str:
        """See `Steps`."""
        return self._began.function

    def called(self, function: str, arguments: Sequence[Any], fed: Collection[int]) -> None:
        """Keep the numbers of a call that may be the next step."""
        self._called = _Call(function)
        if self.wants(self._index + 1):
            numbers, arrays = numbers_of(arguments), arrays_of(arguments)
            known = {place for place, _ in numbers} | {*arrays}
            self._called = _Call(function, numbers, arrays, not known.issuperset(fed))

    def begin(self, step: StepBegin) -> None:
        """Publish the step before, if it was one of them, and begin with what the variables hold if this is."""
        number = self._index + 1
        wanted, is_busy = self.wants(number), self._loose.is_busy
        self._is_due = wanted
        self._after_save = self._sums() if self._has_saved else {}
        if wanted and is_busy and number % self._every == 0:
            self._note("steps are left out while the one before is still being written")
        wanted = self._is_wanted = wanted and not is_busy
        self._digest()
        super().begin(step if wanted else dataclasses.replace(step, variables=(), others=tuple))
        self._began = self._called
        self._arrays = [(place, self._writer.put(each)) for place, each in self._began.arrays.items() if wanted]
        self._seen = None
        if not wanted:
            self._open = self._pending = False
        if self._digested is not None:
            self._digests.know(step.variables)
            before, self._at = self._at, time.perf_counter()
            self._begun, self._left = self._digests.now(), ()
            self._took.append(time.perf_counter() - self._at)
            self._lasted.append(self._at - before)

    def given(self, run: int, leaves: Mapping[int, Sequence[Sequence[Any]]]) -> None:
        """Keep what each replica was given if the step is left, and digest it at every step."""
        super().given(run, leaves)
        local = max(map(len, leaves.values()), default=0)  # what is one for all replicas is no share of a batch
        shares = [leaf for leaf in leaves.values() if len(leaf) == local]
        by_replica = [list(itertools.chain(*leaf)) for leaf in zip(*shares, strict=True)]
        self._deliver_digests(lambda: list(map(digest_of_examples, by_replica)))

    def end(self, variables: Callable[[], Variables], how: StepEnd) -> None:
        """What has not come to its end, or took no gradients, is none."""
        super().end(variables if self._pending else tuple, how)
        if not (how.done and how.trained):
            self._pending, self._index, self._begun = False, self._index - 1, ()
            return
        if self._after_save:
            self._leave(SavedState(self._index - 1, self._after_save, goes_on=True))
            self._has_saved = False
        if self._is_due:  # whoever is busy: all tasks leave the same steps
            self._latest[self.function] = self._index
        if len(self._order) < _FIRST_STEPS:
            self._order.append(self.function)
        if self._begun and 2 * min(self._took) <= _SHARE * statistics.median(self._lasted):
            self._left = self._digests.now()

    def saves(self) -> None:
        """Note what a checkpoint is about to have."""
        if self._index and (sums := self._sums()):
            self._leave(SavedState(self._index, sums))
            self._has_saved = True

    def _sums(self) -> dict[str, int]:
        try:
            return {} if self._loose.folder is None else self._digests.sums()
        except Exception as error:  # noqa: BLE001 - a training does not fail because it is watched
            self._note(f"what a checkpoint has could not be noted: {type(error).__name__}: {error}")
            return {}

    def _leave(self, state: SavedState) -> None:
        try:
            if self._loose.folder is not None:
                leave(self._loose.folder, state)
        except OSError as error:
            self._note(f"what a checkpoint has could not be noted: {error.strerror}")

    def _digest(self) -> None:
        """Write the digests of the step before, which have been computed by now."""
        if self._digested is None or not self._begun:
            return
        begun, left = (tuple(map(int, each)) for each in (self._begun, self._left))
        self._begun = ()
        self._digested.write(Digest(self._index, self._digests.kind, begun, left))
        if self._index % self._every == 0:
            self._flush()

    def _flush(self) -> None:
        try:
            for each in filter(None, (self._digested, self._given)):
                each.flush()
        except OSError as error:
            self._digested = self._given = None  # what follows could not be told from what is missing
            self._note(f"digests could not be left: {error.strerror}")

    def end_evaluation(self, *, ran: bool) -> str | None:
        """Evaluations are not left: one may go through all the data that there are."""
        return super().end_evaluation(ran=False)

    def saw(self, frame: Any) -> None:
        """Hear of what the witness writes: of a step, when the next one is about to begin or some more have been."""
        if isinstance(frame, Seen) and frame.index == self._index:
            self._seen = frame
        if isinstance(frame, Seen) and frame.examples and self._given is not None:
            self._given.write(Digest(frame.index, 0, tuple(_joined(each) for each in frame.examples), ()))

    def close(self) -> None:
        """Publish the last step, and wait until it is written."""
        self._digest()
        self._flush()
        self._settle()
        self._loose.close()

    def _publish(self) -> None:
        if self._seen is not None:
            super()._publish()

    def _evidence(self) -> StepEvidence:
        return msgspec.structs.replace(
            super()._evidence(),
            seen=msgspec.msgpack.encode(self._seen),
            function=self._began.function,
            numbers=self._began.numbers,
            arrays=tuple(self._arrays),
            fed=self._began.is_fed,
            order=tuple(self._order),
        )


def _joined(digests: Sequence[int]) -> int:
    """Of what a replica was given by several calls in a step."""
    return sum(digests) % (1 << 63)
