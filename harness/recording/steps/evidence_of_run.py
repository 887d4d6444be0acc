"""The run's side: each step's evidence is collected while it is computed, and published when the next one begins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.evidence.counters import GivenSeen
from harness.evidence.steps import GIVEN, HeldVariable, PlaceValue, StepEvidence, StepPlace, Stored
from harness.evidence.steps.records import How
from harness.evidence.trace import DrawSeen, is_statistics
from harness.recording.reader import Reader
from harness.recording.steps.protocol import ReplicaDraw, StepBegin, StepEnd, Variables
from harness.recording.steps.state import held_now, how_copies_are

Deliver = Callable[[Sequence[Any], Callable[[list[Any]], None]], None]


class Writer(Protocol):
    """What writes the evidence, as `harness.evidence.steps.EvidenceWriter` does."""

    def begin(self, index: int) -> None:
        """Arrays that are put from now on are of this step."""

    def put(self, value: Any) -> Stored:
        """Where an array will be."""

    def publish(self, step: StepEvidence) -> None:
        """Write a step."""


@dataclass(frozen=True)
class _Passed:
    """What a replica was given, or drew, at a place.

    Attributes:
        outputs: how many of the arrays are that. The others are the draw's parameters.
    """

    place: StepPlace
    replica: int
    operation: str
    arrays: Sequence[Any]
    outputs: int

    def put(self, writer: Writer) -> PlaceValue:
        """The same, in the evidence."""
        stored = [writer.put(array) for array in self.arrays]
        of, parameters = tuple(stored[: self.outputs]), tuple(stored[self.outputs :])
        return PlaceValue(self.place, self.replica, of, self.operation, parameters)


class RunEvidenceWriter:
    """Keeps the evidence of every step of this process.

    Args:
        writer: adds to the store.
        replicas: the numbers of the local replicas, over all tasks.
        deliver: hands values over when a graph is run, as of `Gathered.deliver`.
        at_once: whether a step is published as soon as its call has ended, since the process may be killed then.
    """

    follows = waits = are_single = False
    seeds_beside = 0

    def __init__(self, writer: Writer, replicas: Sequence[int], deliver: Deliver, *, at_once: bool = False) -> None:
        self._writer = writer
        self._replicas = replicas
        self._deliver = deliver
        self._at_once = at_once
        self._reader = Reader()
        self._lock = threading.Lock()
        self._index = 0
        self._open = False
        self._pending = False
        self._done = True
        self._trained, self._by_hand = True, False
        self._own: tuple[HeldVariable, ...] = ()
        self._before: tuple[HeldVariable, ...] = ()
        self._eager: int | None = None
        self._worker: int | None = None
        self._passed: list[PlaceValue] = []
        self._reported: list[tuple[HeldVariable, ...]] = []
        self._evaluations: list[tuple[PlaceValue, ...]] = []
        self._evaluation: list[_Passed] | None = None

    def begin(self, step: StepBegin) -> None:
        """Publish the step before, and begin with what the variables hold."""
        try:
            self._settle()
        finally:  # a step that could not be published is missing, and does not shift those after it
            self._index += 1
            self._writer.begin(self._index)
            self._eager, self._worker, self._before, self._reported = step.eager, step.worker, (), []
            # What was taken for an evaluation, and asks for gradients now, is this step.
            self._passed = [each.put(self._writer) for each in self._evaluation or ()]
            self._evaluations, self._evaluation, self._own = [], None, ()
            self._open, self._pending, self._done = False, False, True
        # Of a step that begins with nobody knows what there is no evidence.
        self._before = self._held(step.variables) + self._held(step.others(), local=True)
        self._open = self._pending = True

    def called(self, function: str, arguments: Sequence[Any], fed: Collection[int]) -> None:
        """Not asked."""

    def report(self, variables: Variables) -> None:
        """Keep what the variables hold, and publish the step: the process may be killed right after this."""
        if self._pending:
            self._reported.append(self._held(variables))
            self._publish()

    @property
    def function(self) -> str:
        """Not asked."""
        return ""

    @property
    def begins_part(self) -> bool:
        """A process of a run is a part."""
        return False

    @property
    def apart(self) -> str | None:
        """Not known here."""
        return None

    @property
    def draws(self) -> tuple[DrawSeen, ...]:
        """Not known here."""
        return ()

    @property
    def examples(self) -> GivenSeen | None:
        """Not known here."""
        return None

    @property
    def counted(self) -> dict[str, Any]:
        """Nothing of this is known here."""
        return {}

    def end(self, variables: Callable[[], Variables], how: StepEnd) -> None:
        """What passes from now on belongs to no step."""
        self._open, self._done, self._trained, self._by_hand = False, how.done, how.trained, how.by_hand
        rarely = self._index & (self._index - 1)  # all variables are read for it, which most steps need not
        self._own = () if rarely else self._apart(variables())
        if self._at_once:
            self._publish()

    def was_read(self) -> None:
        """Nothing is to be done: the run goes first."""

    def trained(self) -> None:
        """Have the evidence of it say so, which is published when the next one begins."""
        self._trained = True

    def _apart(self, variables: Variables) -> tuple[HeldVariable, ...]:
        """What those hold of which each replica may have something of its own, here or in another task."""
        return self._held(variables, lambda name, how: how in ("own", "mean") or is_statistics(name))

    def begin_evaluation(self) -> None:
        """What passes now is of an evaluation."""
        self._evaluation = []

    def end_evaluation(self, *, ran: bool) -> str | None:
        """Keep what has passed, if it was one."""
        if self._evaluation is not None and ran and self._index:
            self._evaluations.append(tuple(each.put(self._writer) for each in self._evaluation))
        self._evaluation = None
        return None

    def wants(self, number: int) -> bool:
        """Each of them is kept."""
        return True

    def trains_in_eager_run(self, number: int) -> bool | None:
        """Not known: the run goes first."""
        return None

    def own_ids(self, reported: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
        """Those that are reported."""
        return reported

    def given(self, run: int, leaves: Mapping[int, Sequence[Sequence[Any]]]) -> None:
        """Keep what each replica was given."""
        for number, leaf in leaves.items():
            for replica, parts in zip(self._replicas, leaf, strict=False):
                self._pass(StepPlace(GIVEN, run, number), replica, parts)

    def drawn(self, draw: ReplicaDraw) -> list[Any]:
        """Keep what a replica drew."""
        self._pass(draw.place, draw.replica, draw.outputs, draw.operation, draw.parameters)
        return list(draw.outputs)

    def batches(self, inputs: Any, *, traced: bool) -> None:
        """Each replica of a run has its own."""

    def blind(self, why: str) -> None:
        """Nothing can be kept of it."""

    def _pass(
        self,
        place: StepPlace,
        replica: int,
        values: Sequence[Any],
        operation: str = "",
        parameters: Sequence[Any] = (),
    ) -> None:
        def take(arrays: list[Any]) -> None:
            passed = _Passed(place, replica, operation, arrays, len(values))
            with self._lock:
                if self._evaluation is not None:
                    self._evaluation.append(passed)
                elif self._open:
                    self._passed.append(passed.put(self._writer))

        self._deliver([*values, *parameters], take)

    def _held(
        self,
        variables: Variables,
        wanted: Callable[[str, How], bool] = lambda name, how: True,
        *,
        local: bool = False,
    ) -> tuple[HeldVariable, ...]:
        found = []
        for named, variable, own in held_now(variables, self._reader):
            how: How = how_copies_are(variable, own)
            if not wanted(named.name, how):
                continue
            if local and how == "copies":  # they may be equal by chance, or those of one task
                how = "own"
            stored = tuple(map(self._writer.put, own[:1] if how == "copies" else own))
            found.append(HeldVariable(named.name, named.number, how, stored, local))
        return tuple(found)

    def close(self) -> None:
        """Publish the last step; who follows need not wait for another one."""
        self._settle()
        self._writer.begin(self._index + 1)

    def computes(self) -> None:
        """The run goes first."""

    def _settle(self) -> None:
        if self._pending:
            self._open, self._pending = False, False
            self._publish()

    def _publish(self) -> None:
        self._writer.publish(self._evidence())

    def _evidence(self) -> StepEvidence:
        with self._lock:
            passed = tuple(self._passed)
        return StepEvidence(
            self._index,
            self._before,
            passed,
            tuple(self._reported),
            self._eager,
            self._done,
            self._trained,
            self._own,
            tuple(self._evaluations),
            self._worker,
            by_hand=self._by_hand,
        )
