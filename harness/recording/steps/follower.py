"""The judge's side: at each step one replica is set to the run's state, given the run's examples, and yields its draws.

So what the step leaves follows from what the run's step had, and from nothing that happened before.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from harness.evidence.counters import GivenSeen
from harness.evidence.steps import (
    FOR_ALL,
    GIVEN,
    EvidenceReader,
    HeldVariable,
    PlaceValue,
    RunEvidence,
    RunStep,
    Standing,
    StepPlace,
)
from harness.evidence.steps.store import data_of
from harness.evidence.trace import DrawSeen
from harness.recording.noise import Noise
from harness.recording.steps.draw_checks import DrawSource, Repeats, are_of_one_each, in_turn, is_alike
from harness.recording.steps.example_ids import ExampleIds
from harness.recording.steps.example_rows import ExampleRows
from harness.recording.steps.followed_state import FollowedState
from harness.recording.steps.protocol import ReplicaDraw, StepBegin, StepEnd, Variables
from harness.recording.steps.replay_values import with_replay_values
from harness.recording.steps.replica_counts import ReplicaCounts
from harness.recording.steps.row_joins import (
    NotJoinable,
    joined_rows,
    known_sizes,
    repeated_rows,
    same_rows,
    sizes_of,
)
from harness.recording.steps.row_parts import numbers_of_rows
from harness.recording.steps.single_calls import SingleCalls
from harness.recording.watch.places import BY_PYTHON, Places


class Follower:
    """Follows the evidence that a run has left.

    Args:
        evidence: of the run.
        noise: of a process that shows what rounding does to each step.
        silent: a context in which nothing perturbs or watches.
        standing: of the replicas of this process for those of the run.
    """

    follows = True

    def __init__(
        self,
        evidence: RunEvidence,
        noise: Noise | None,
        silent: Callable[[], Any],
        standing: Standing = FOR_ALL,
    ) -> None:
        self._standing, self._replicas = standing, standing.replicas
        self._counts = ReplicaCounts(standing)
        self._evidence = evidence
        self.waits = evidence.live is not None
        self.are_single = not self.waits and evidence.step(1).original is not None
        self._noise = noise
        self._silent = silent
        self._state = FollowedState(noise, silent, are_single=self.are_single)
        self._lock = threading.Lock()
        self._index = 0
        self._calls = SingleCalls()
        self._step: RunStep | None = None
        self._pending: Variables | None = None
        self._assumed: list[tuple[Callable[[RunStep], Any], Any]] = []
        self._last: RunStep | None = None
        self._reports = 0
        self._evaluations = 0
        self._evaluated: RunStep | None = None
        self._apart_evaluated, self._own = dict[str, None](), dict[str, None]()
        self._ids = ExampleIds()
        self._examples: GivenSeen | None = None
        self._all_examples = ExampleRows()
        self._apart, self._blind = dict[str, None](), dict[str, None]()
        self._places = Places()
        self._repeats = Repeats()
        self._draws_seen: dict[DrawSeen, None] = {}

    @property
    def draws(self) -> tuple[DrawSeen, ...]:
        """What is to be said of the run's draws in the step that began last."""
        return tuple(self._draws_seen)

    @property
    def examples(self) -> GivenSeen | None:
        """See `Steps`."""
        return self._examples

    @property
    def counted(self) -> dict[str, Any]:
        """See `Steps`."""
        return {"others": self._all_examples.differing, "all_examples": self._all_examples.over_all()}

    @property
    def seeds_beside(self) -> int:
        """See `Steps`."""
        if self._replicas > 1:
            return 0
        live = self._evidence.live
        if self._step is None and live is not None and not self._evidence.is_settled(1):
            return int(self._assume(lambda step: step.local_replicas, live.local_replicas)) - 1
        return (self._step or self._evidence.step(1)).local_replicas - 1

    @property
    def function(self) -> str:
        """See `Steps`."""
        return self._calls.function

    def called(self, function: str, arguments: Sequence[Any], fed: Collection[int]) -> Sequence[Any] | None:
        """The numbers that the run's call had, if that is alike."""
        return self._calls.called(function, arguments, self._evidence.step(self._index + 1), fed)

    @property
    def begins_part(self) -> bool:
        """See `Steps`."""
        following = self._evidence.step(self._index + 1)
        return self._last is not None and following.is_there and following.segment != self._last.segment

    @property
    def apart(self) -> str | None:
        """Why the step that began last cannot be judged by one replica; None if it can."""
        return next(iter((*self._apart, *self._blind)), None)

    def _set_apart(self, why: str) -> None:
        """One replica cannot compute what is being computed."""
        (self._apart if self._evaluated is None else self._apart_evaluated)[why] = None

    def blind(self, why: str) -> None:
        """No step can be judged from now on: nobody knows which of them call it."""
        self._blind[why] = None

    def begin(self, step: StepBegin) -> None:
        """Set the variables to what the run's step began with, or have `computes` do it when that is there."""
        self._index += 1
        self._apart.clear()
        self._examples = None
        self._draws_seen.clear()
        self._step, self._pending = None, [*step.variables, *step.others()]
        self._calls.begin()
        if not step.traced or self._evidence.is_settled(self._index):
            self.computes()

    def computes(self) -> None:
        """Begin with what the run's step began with, if that has not been done."""
        if self._pending is None:
            return
        step = self._evidence.step(self._index)
        if any(asked(step) != answer for asked, answer in self._assumed):  # so it is whenever this is asked again
            raise RuntimeError(f"step {self._index} of the run is not what its graph here was built for")
        variables, self._pending = self._pending, None
        self._assumed.clear()
        if self._last is not None and self._last.segment != step.segment:
            self._repeats = Repeats()  # who is started again may draw what was drawn before
        self._step = self._last = step
        self._reports = self._evaluations = 0
        self._evaluated = None
        self._own.update(dict.fromkeys(step.own))
        if not step.is_there:
            self._apart["the run has left no evidence of what is computed here"] = None
            return
        self._set(variables, step.held)

    def _assume(self, asked: Callable[[RunStep], Any], answer: Any) -> Any:
        """An answer that the step which is pending, or begins next, has to give as well before anything is computed."""
        self._assumed.append((asked, answer))
        return answer

    def report(self, variables: Variables) -> None:
        """Set these to what the run had when it reported them."""
        if (step := self._last) is not None and self._reports < step.reports:
            self._set(variables, step.reported(self._reports))
            self._reports += 1

    def _set(self, variables: Variables, held: Sequence[tuple[EvidenceReader, HeldVariable]]) -> None:
        by_name: dict[tuple[str, int], list[tuple[EvidenceReader, HeldVariable]]] = {}
        for reader, each in held:
            by_name.setdefault((each.name, each.number), []).append((reader, each))
        with self._silent():
            for variable, values in self._counts.set_to(variables, by_name):
                self._state.begin(variable, values)

    def end(self, variables: Callable[[], Variables], how: StepEnd) -> None:
        """What passes from now on belongs to no step."""
        self.computes()
        step, self._step = self._step, None
        self._index -= self.are_single and not how.trained  # it is still to come
        if step is not None:
            self._apart.update(dict.fromkeys(self._calls.apart(step, how)))
        self._state.end()
        if self._standing.common:
            self._state.share(variables())

    def was_read(self) -> None:
        """The steps of a longer training are no next ones of this script, which counts its own."""
        self._state.count_on()

    def trained(self) -> None:
        """Nothing is left to do."""

    def begin_evaluation(self) -> None:
        """What it is given and draws is what the run's was and did."""
        self._apart_evaluated.clear()
        if self._last is not None:
            self._evaluated = self._step = self._last.evaluation(self._evaluations)

    def end_evaluation(self, *, ran: bool) -> str | None:
        """The next one is the next one of the run."""
        evaluated, self._evaluated = self._evaluated, None
        if evaluated is None:
            return None
        self._step = None
        self._evaluations += ran
        if not evaluated.is_there:
            return "the run has left no evidence of what is computed here"
        if (own := next(iter(self._own), None)) is not None:
            return f"each replica has its own {own}"
        return next(iter(self._apart_evaluated), None) or self.apart

    def wants(self, number: int) -> bool:
        """Each of them is compared."""
        return True

    def trains_in_eager_run(self, number: int) -> bool | None:
        """Of single steps it is known by its name, which an evaluation may have too."""
        following = self._evidence.step(self._index + 1) if self._step is None else None
        if following is None:
            return None
        if self.are_single:
            return False if self._calls.is_called(following) else None
        return following.trained if following.eager == number else None

    def own_ids(self, reported: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
        """Those that this process was given itself, where it reports the run's."""
        return self._ids.own(reported) or reported

    def given(self, run: int, leaves: Mapping[int, Sequence[Sequence[Any]]]) -> list[list[Sequence[Any]]]:
        """The examples of all replicas; or to each replica its own, again and again."""
        found = [
            self._given_to(
                run, replica, {number: leaf[replica if len(leaf) > 1 else 0] for number, leaf in leaves.items()}
            )
            for replica in range(self._replicas)
        ]
        return list(map(list, zip(*found, strict=True)))

    def _given_to(self, run: int, replica: int, leaves: Mapping[int, Sequence[Any]]) -> list[Sequence[Any]]:
        places = [StepPlace(GIVEN, run, number) for number in leaves]
        by_leaf = list(itertools.pairwise(itertools.accumulate(map(len, leaves.values()), initial=0)))

        def recall(*values: Any) -> list[Any]:
            own = [values[first:last] for first, last in by_leaf]
            found = [self._rows(place, replica, parts) for place, parts in zip(places, own, strict=True)]
            trains = self._evaluated is None and (self._step is None or self._step.trained)
            ours, theirs = list(map(numbers_of_rows, found)), list(map(numbers_of_rows, own))
            if not trains and same_rows(ours, theirs):
                return list(values)  # what an evaluation gives back is in the order of what it was given
            if self._is_compared and self._replicas == 1:
                rows = [k for k, value in enumerate(theirs) if value.ndim]
                self._compare([ours[k] for k in rows], [theirs[k] for k in rows])
                for number, given, value in zip(leaves, ours, theirs, strict=True):
                    self._ids.add(number, given, value)
            return list(itertools.chain(*found))

        shapes = [
            self._shape_of(place, replica, part, number)
            for place, parts in zip(places, leaves.values(), strict=True)
            for number, part in enumerate(parts)
        ]
        flat = with_replay_values(list(itertools.chain(*leaves.values())), recall, shapes=shapes)
        noisy = [value if self._noise is None else self._noise.of_data(value) for value in flat]
        return [noisy[first:last] for first, last in by_leaf]

    @property
    def _is_compared(self) -> bool:
        """Whether a step is being made of which there is evidence, and no evaluation."""
        step = self._step
        return step is not None and step.is_there and not step.fills and self._evaluated is None

    def _compare(self, given: Sequence[Any], own: Sequence[Any]) -> None:
        if self._step is None or self._step.original is not None:  # which are not its own in turn
            return
        found, before = self._all_examples.add(self._index, given, own), self._examples
        if found is not None and before is not None:
            found = GivenSeen(before.rows + found.rows, before.own + found.own, before.others + found.others)
        self._examples = found or before

    def _shape_of(self, place: StepPlace, replica: int, own: Any, part: int) -> Any:
        """What is known of the shape of the examples of all replicas before there are any."""
        import tensorflow as tf

        shape = tf.TensorShape(own.shape)
        if not shape.rank:
            return shape

        def known(step: RunStep) -> list[int | None]:
            passed = [each[0][1].arrays[part].shape for each in self._of_all(step, place, replica) if each]
            if not passed and self._standing.times > 1:  # of which it is not known yet that they are given again
                return [None, *shape.as_list()[1:]]
            return known_sizes(shape.as_list(), passed)

        if self._pending is not None:
            self._assume(known, answer=shape.as_list())
            return shape
        found = known(self._step or self._evidence.step(self._index + 1))
        unknown = self._evidence.uneven_axes(place, part)
        others = not self._standing.repeats or (shape[0] is not None and found[0] not in (None, shape[0]))
        if others and not self.waits:
            # When the run's batches get smaller, its own may not, and its graph is not built again.
            unknown |= self._evidence.varying_axes(place, part, evaluated=self._evaluated is not None)
        return tf.TensorShape([None if axis in unknown else size for axis, size in enumerate(found)])

    def _rows(self, place: StepPlace, replica: int, own: Sequence[Any]) -> Sequence[Any]:
        with self._lock:
            passed = self._next(place, replica)
            if passed is None:
                return own
            try:
                return [
                    self._of_replicas(place, [reader.array(each.arrays[k]) for reader, each in passed], value)
                    for k, value in enumerate(own)
                ]
            except NotJoinable as why:
                self._set_apart(str(why))
                return own

    def _of_replicas(self, place: StepPlace, rows: Sequence[Any], own: Any) -> Any:
        if self._replicas == 1:
            return joined_rows(rows, own, lambda: self._is_whole(place))
        return rows[0] if self._is_whole(place) else repeated_rows(rows)

    def _is_whole(self, place: StepPlace) -> bool:
        """Whether all replicas were given the same, such as anchors: shares may be so by chance, but not again."""
        if self._step is None:
            return False
        near = () if self._evaluated is not None else range(max(1, self._index - 1), self._index + 2)
        settled = map(self._evidence.step, filter(self._evidence.is_settled, near))
        steps = [self._step, *(step for step in settled if step.is_there)]
        count = len(self._step.replicas(place))  # another part of a run may have had another number of replicas
        passes = [each for step in steps for each in zip(*step.replicas(place), strict=False) if len(each) == count]
        return count > 1 and all(
            len({data_of(reader.array(passed.arrays[0])) for reader, passed in each}) == 1 for each in passes
        )

    def _begun(self) -> RunStep | None:
        """The step whose graph is being run; None of what is no step."""
        if self._pending is not None:
            raise RuntimeError(f"step {self._index} is computed before it was set to what the run's began with")
        return self._step

    def _next(
        self, place: StepPlace, replica: int, own: Sequence[Any] = ()
    ) -> list[tuple[EvidenceReader, PlaceValue]] | None:
        """What passed a place on all replicas the next time; None where that is not known.

        Of several replicas, what passed it on this one, so often.

        In a loop over examples one replica passes it as often as all replicas together: first for those of the first.
        """
        if (step := self._begun()) is None:
            return None
        count = step.recalled[place, replica]
        step.recalled[place, replica] += 1
        replicas = self._of_all(step, place, replica)
        if self._replicas > 1:
            return [passed[count] for passed in replicas if count < len(passed)] or None
        found: Sequence[Sequence[tuple[EvidenceReader, PlaceValue]]] = [each[count:] for each in replicas]
        if own and are_of_one_each(replicas, own):
            given = [self._of_all(step, each, replica) for each in step.given_by(place.run)]
            found = in_turn(count, replicas, given, step.calls(place.run)) or found
        return [each[0] for each in found if each] or None

    def _of_all(
        self, step: RunStep, place: StepPlace, replica: int
    ) -> Sequence[Sequence[tuple[EvidenceReader, PlaceValue]]]:
        """What passed a place on each replica of which one here has what it had."""
        if self._replicas > 1:
            return [step.of(place, replica)] * self._standing.times
        return [each for each in step.replicas(place)[: self._standing.read] for _ in range(self._standing.copies)]

    def drawn(self, draw: ReplicaDraw) -> list[Any]:
        """What all replicas drew."""
        count = len(draw.outputs)
        source = self._source(draw.operation, seeded=draw.seeded)

        def recall(*values: Any) -> list[Any]:
            return self._draws(draw, source, values[:count], values[count:])

        asked, name = (draw.parameters, None) if draw.call is None else (draw.call.inputs, BY_PYTHON)
        return with_replay_values(draw.outputs, recall, asked, [output.shape for output in draw.outputs], name)

    def batches(self, inputs: Any, *, traced: bool) -> Any:
        """As many as the run has replicas, in the order in which `given` gives their rows."""
        import numpy as np
        import tensorflow as tf

        def count_of(step: RunStep) -> int:
            return len(next(iter(step.rows()), ()))

        step: RunStep | None = None
        if self._pending is not None and (live := self._evidence.live) is not None:
            count = int(self._assume(count_of, live.replicas))
        else:
            step = self._step or self._evidence.step(self._index + 1)
            count = count_of(step)
        if self._replicas > 1 or count < 2:
            return None
        source = self._source("BatchNormalization", seeded=False)

        def sizes(rows: Any) -> Any:
            with self._lock:
                if self._is_compared:
                    self._draws_seen[source.statistics] = None
                now = self._begun() or step
                return np.array(sizes_of(() if now is None else now.rows(), int(rows), count), np.int32)

        if not traced or tf.executing_eagerly():
            return None if inputs.shape[0] is None else tf.constant(sizes(inputs.shape[0]))
        found = tf.numpy_function(sizes, [tf.shape(inputs)[0]], tf.int32, stateful=True)
        found.set_shape([count])
        return found

    def _source(self, operation: str, *, seeded: bool) -> DrawSource:
        """Who draws where Python is now."""
        place, frames = self._places.here(), self._places.frames
        by_keras = bool(place.frames) and self._places.is_keras(frames[place.frames[-1]].file)
        return DrawSource(operation, self._places.line() or "a line that is not known", by_keras, seeded)

    def _draws(self, draw: ReplicaDraw, source: DrawSource, own: Sequence[Any], parameters: Sequence[Any]) -> list[Any]:
        call = draw.call
        with self._lock:
            if (step := self._begun()) is None or not step.is_there:
                return list(own)
            passed = self._next(draw.place, draw.replica if self._replicas > 1 else 0, own)
            parts = [[reader.array(stored) for stored in each.arrays] for reader, each in passed or ()]
            with self._silent():
                drawn = [True] * len(own) if call is None else call.draws(own, parts, parameters)
            if not any(drawn):
                return list(own)
            try:
                if passed is None:
                    raise NotJoinable(f"one replica draws by {source.operation}, and the run does not")
                if call is not None and call.has_gradients:
                    raise NotJoinable("gradients are taken through numbers that Python draws")
                self._check_alike(passed, source, () if call is not None else parameters)
                if self._replicas == 1 and self._is_compared and drawn[0]:
                    numbers = [each.replica for _, each in passed]
                    said = self._repeats.look(source, (self._index, step.worker), draw.place, numbers, parts, own)
                    self._draws_seen.update(dict.fromkeys(said))
                if call is not None and self._is_compared:
                    self._draws_seen.update(dict.fromkeys(source.of_python(call)))
                arrays = zip(drawn, own, zip(*parts, strict=True), strict=True)
                return [self._joined(source, each, value) if drew else value for drew, value, each in arrays]
            except NotJoinable as why:
                if why.is_own and self._is_compared:
                    self._draws_seen[source.own] = None
                if not source.is_determined:
                    self._set_apart(f"at {source.where} {why}")
                return list(own)

    def _joined(self, source: DrawSource, parts: Sequence[Any], own: Any) -> Any:
        """One array that replicas drew, as one replica has it."""
        found, said = source.joined(parts, own, self._standing)
        if said is not None and self._is_compared:
            self._draws_seen[said] = None
        return found

    def _check_alike(
        self, passed: Sequence[tuple[EvidenceReader, PlaceValue]], source: DrawSource, parameters: Sequence[Any]
    ) -> None:
        """Fail unless the run drew by the same operation; note it if it did from another distribution.

        Raises:
            Apart: it did not.
        """
        for reader, each in passed:
            if each.operation != source.operation:
                raise NotJoinable(f"the run draws by {each.operation} where one replica draws by {source.operation}")
            for stored, own in zip(each.parameters, parameters, strict=False):
                if not is_alike(reader, stored, own):
                    self._draws_seen[source.unlike(reader.array(stored), own)] = None
                    raise NotJoinable(f"the run draws by {source.operation} from another distribution than one replica")

    def close(self) -> None:
        """Nothing is left behind."""
