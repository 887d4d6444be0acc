"""What a seam of the witness is, and what all of them share: the step that is being made, and what was seen of it."""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from harness.evidence.stand_ins import ENDLESS
from harness.recording.closure_files import Files
from harness.recording.reader import Reader
from harness.recording.steps.protocol import StepBegin, StepEnd
from harness.recording.witness._call_results import ends_data, said_of
from harness.recording.witness._graph_values import ValueBatch, emit
from harness.recording.witness._known_functions import KnownCall, KnownFunctions
from harness.recording.witness._notes import ProgramNotes
from harness.recording.witness._origins import ComputedValues
from harness.recording.witness._registry import Registry
from harness.recording.witness._sight import Sight
from harness.recording.witness._step_events import Event, InRun, StepSeen
from harness.recording.witness._switch import Switch
from harness.recording.witness._value_buffer import Span, ValueBuffer, stamp

if TYPE_CHECKING:
    import numpy as np

    from harness.evidence.trace import SeenVariable
    from harness.recording.steps import Steps


STEPS_IN_FULL = 16
"""After these steps, of each doubling of their number eight are looked at, evenly apart, and the last of all: a mistake
stays in what is trained. Examples are seen at every step.
"""


class Seam(Protocol):
    """A module of this folder: one place at which something of a training step can be seen."""

    def active(self, gathered: WitnessState) -> contextlib.AbstractContextManager[None]:
        """See what passes here, within this context."""


class WitnessState(Sight):
    """What the seams have seen since the last step was written.

    A step is one outermost call of a `tf.function`, or of `Strategy.run` where a program runs eagerly, in which a tape
    was asked for gradients of variables, or an optimizer given some. Until there is such a call, one in which replicas
    run and a variable is assigned is a step as well: values to begin with, or an update that the program computes by
    hand. What was seen in calls of other kinds, such as an evaluation, is forgotten. A step is looked at when the next
    one begins, or when the program reports something: only then is it known whether it reports variables itself.

    Attributes:
        strategy: of the run; of several the one that was built last.
        local_replicas: how many of its replicas this process has.
        reader: reads variables.
        reported: the observables that the program has reported itself until now.
        tapes: how often a tape was asked for gradients of variables, or an optimizer given some; of a graph, when it
            was built.
        functions: what they were when they were traced or called.
        apart: why what an evaluation gives cannot be held against the run's; None if it can.
        evaluated: calls this after such a call, or a step, with what it has given back, what it is called, and whether
            it trains; set by the witness.
        raised: sentences that are always told, as about steps that raised, after which the program went on.
        overwritten: sentences about arrays of the program's that TensorFlow has written over.
        noted: what belongs to no step.
        memory: gives what the callbacks of `fit` remember now.
        written: calls this after a step, with what was seen of it, and whether it was the last; set by the witness.
        settled: calls this before the next one begins; set by the witness.
        number: of the step that is being made, from 1.
        switch: tells graphs whether numbers are kept of the step that is being made.
        only_closures: whether nothing is a step but what a coordinator schedules.
        shared: how values leave a graph that is run in another process, None where all graphs are run in this one.
        worker: whose turn it is to run the closure that is being scheduled.
        at_once: whether each step is looked at as soon as its call has returned, since the process may be killed before
            the next one begins. Nothing must be reported then, and what `fit` logs of an epoch is not seen.
        steps: keeps the evidence of steps, or follows that of a run; None where nobody asks for it.
        started: is called before the first step begins, where there is evidence of steps, and where steps are looked at
            at once before each of them: what happens in between shows nowhere else.
        in_run: the call of `Strategy.run` that Python is in.
        computed: what calls have given back.
        has_own_step: whether a function of the program's own is a step, and none of Keras.
        gives_parts: whether such a step has given back numbers that each replica has for itself.
        reduces: whether the program has reduced numbers of replicas itself, outside of all calls.
        passed: what has passed the seams in the call that has ended last.
        drawn: tensors that replicas have drawn, by their `id`.
    """

    def __init__(
        self,
        strategy: Any,
        local_replicas: int,
        silent: Callable[[], contextlib.AbstractContextManager[None]],
        *,
        at_once: bool = False,
        alone: bool = True,
    ) -> None:
        super().__init__()
        self.strategy = strategy
        self._strategies = [strategy]
        self.at_once = at_once
        self.shared: Files | None = None
        self.only_closures = False
        self.worker: int | None = None
        self.local_replicas = max(1, local_replicas)
        self._silent = silent
        self.registry = Registry(alone=alone)
        self.reader = Reader()
        self.reported: set[str] = set()
        self.tapes = 0
        self.functions = KnownFunctions()
        self.raised: dict[str, None] = {}
        self.has_own_step = self.gives_parts = self.reduces = False
        self.passed: list[Event] = []
        self.overwritten: dict[str, None] = {}
        self.noted = ProgramNotes()
        self.memory: Callable[[], tuple[SeenVariable, ...]] = tuple
        self.written: Callable[[StepSeen, bool], None] = lambda step, last: None
        self.settled: Callable[[], None] = lambda: None
        self.number = 1
        self.made: StepSeen | None = None
        self._events: list[Event] = []
        self._sites = itertools.count()
        self._lock = threading.Lock()
        self._depth = 0
        self._trained = self._changes = False
        self._batch: ValueBatch | None = None
        self._waiting = ValueBuffer()
        self.switch = Switch()
        self.steps: Steps | None = None
        self.in_run: InRun | None = None
        self._entered = self._traces = False
        self._ended: tuple[list[Event], Span] | None = None
        self.started: Callable[[], None] = lambda: None
        self._started = False
        self._eager: int | None = None
        self._eager_runs = 0
        self._ran = False
        self.apart: str | None = None
        self.evaluated: Callable[..., None] = lambda *given, **how: None
        self.computed = ComputedValues()
        self.drawn: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.switch.turn(on=self.in_full)

    def adopt(self, strategy: Any) -> None:
        """Know a strategy of the run that was built now; a program may build several of a kind."""
        self.strategy = strategy
        self._strategies.append(strategy)

    def knows(self, strategy: Any) -> bool:
        """Whether this is a strategy of the run."""
        return any(strategy is each for each in self._strategies)

    @property
    def in_full(self) -> bool:
        """Whether numbers are kept of the step that is being made; of every one where its own number says little."""
        if self.steps is not None:
            return self.steps.wants(self.number)
        if self.at_once:
            return True
        apart = max(1, (1 << self.number.bit_length()) // STEPS_IN_FULL)
        return self.number <= STEPS_IN_FULL or self.number % apart == 0

    def site(self) -> int:
        """The number of a place in the program that is being traced, or passed eagerly."""
        return next(self._sites)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Around what the harness does itself: noise perturbs nothing, and nothing is a draw of the program's."""
        with self._silent(), self.drawing_nothing():
            yield

    @contextlib.contextmanager
    def looking(self, what: str) -> Iterator[None]:
        """Around what a seam does besides the program's own: it costs a sentence if it fails, and never the program."""
        try:
            with self.silent():
                yield
        except Exception as error:  # noqa: BLE001 - see above
            self.note(f"{what}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")

    def take(self, event: Event) -> None:
        """Keep what passed a seam; also from TensorFlow's own threads."""
        with self._lock:
            self._events.append(event)

    @property
    def is_outermost(self) -> bool:
        """Whether the program itself is about to call something that may be a step, and not something that it called.

        Threads of replicas belong to a call, and threads of the program's own are not looked at.
        """
        import tensorflow as tf

        return self._depth == 0 and self.threads.is_main and bool(tf.executing_eagerly())

    @property
    def is_training(self) -> bool:
        """Whether a call is being made, or a step has been."""
        return self._depth > 0 or self.in_run is not None or self.number > 1 or self.made is not None

    def trains(self) -> None:
        """A tape was asked for gradients of variables: what is being called is a step, or if nothing is, this is one.

        Called before anything of the new step is carried out that could change a variable.
        """
        if self._depth == 0 and self.only_closures:
            return
        if self._depth == 0 and self.threads.is_main:
            self._begin()
            self.tapes += 1
            self._started = True
            self.made = self._step(self._events)
            self._events = self.made.events
            if self.at_once:
                self.note(ENDLESS)
        else:
            self.updates()

    def updates(self) -> None:
        """In what is being called an optimizer is given gradients, by a tape or by hand: it is a step."""
        if self.threads.is_aside:
            return
        if self._depth and not self._trained:
            if not (self._entered or self._traces):
                self._begin()
            self._trained = True
        self.tapes += 1

    def changes(self) -> None:
        """In what is being called a variable gets a value that is trained, or another number of the program's own."""
        self._changes |= self._depth > 0 and not self.threads.is_aside

    def assigns(self, variable: Any) -> None:
        """A variable gets a value: in a program that has taken no gradients a call that ran replicas is a step by that.

        That may be in the call, or after it. Who keeps evidence has begun with the step when replicas were run.
        """
        if self.registry.is_own(variable):
            self.changes()
        if not self.is_by_hand or self.threads.is_aside or not self.registry.is_state(variable):
            return
        if self._depth:
            self._trained = True
        elif self._ended is not None and self.steps is not None:
            (events, span), self._ended = self._ended, None
            self.steps.trained()
            self._makes(events, span)

    def enters(self) -> None:
        """In what is being called replicas are run.

        In a program that has never asked a tape for gradients nobody knows which calls train: then each of these is a
        step to those who keep evidence.
        """
        self._ran = True
        if self.steps is not None and self._depth and not self.tapes and not (self._trained or self._entered):
            self._begins_by_hand()

    @property
    def has_step(self) -> bool:
        """Whether there is a step that has not been looked at, or a call that becomes one by what is assigned of it."""
        return self.made is not None or self._ended is not None

    @property
    def was_evaluation(self) -> bool:
        """Whether replicas were run in what was called last, in which no gradients were taken."""
        return self._ran and not (self._trained or self._entered)

    @property
    def is_by_hand(self) -> bool:
        """Whether what is being called, or was last, may be a step by what is assigned."""
        return not self.tapes and (self._trained or self._entered)

    def _begins_by_hand(self) -> None:
        self._entered = True
        if not self._traces:
            self._begin()

    def _begin(self) -> None:
        """A step begins, of which nothing has been computed yet.

        What it begins with is said until one is known for a step: one that is started again may run some to restore.
        The variables that the program reports are compared as it reports them, and what it does to them until the next
        step begins shows in what it reports then. All others are compared here.
        """
        import tensorflow as tf

        self.look()
        self.settled()
        if self.steps is not None:
            traced = not tf.executing_eagerly()
            with tf.init_scope(), self.keeping():
                self._started |= bool(self.reported)
                if self.at_once or not self._started or self.steps.begins_part:
                    self.started()
                if self.steps.are_single and self.in_full:
                    self.registry.drop_unused()
                state = self.registry.judged_state(reported=not self._started)
                others = self.registry.unjudged_state if self.steps.are_single else tuple
                self.steps.begin(StepBegin(state, self._eager, self.worker, traced, others))
                self.switch.turn(on=self.in_full)  # some are wanted for what is called in them

    def keeping(self) -> contextlib.AbstractContextManager[None]:
        """Around what is done for the evidence of steps: a run goes on without, and who follows one does not."""
        if self.steps is not None and self.steps.follows:
            return contextlib.nullcontext()
        return self.looking("the evidence of a step")

    @contextlib.contextmanager
    def call(self, known: KnownCall, *, runs: bool = False) -> Iterator[Callable[[], bool]]:
        """Around an outermost call.

        Args:
            known: of it.
            runs: whether it is `Strategy.run` itself that is called, eagerly.

        Yields:
            A function that tells, afterwards, whether it was a step.
        """
        if self.only_closures and self.worker is None:
            yield lambda: False
            return
        self._eager_runs += runs
        self._eager, weights = self._eager_runs if runs else None, self.registry.weights
        trains = self.steps.trains_in_eager_run(self._eager_runs) if runs and self.steps is not None else None
        is_step = known.trains or trains is True
        self._entered, self._ended = False, None
        if is_step:
            self._begin()
        elif trains is False or (known.by_hand and not self.tapes and self.steps is not None):
            self._begins_by_hand()
        self._trained, self._changes, self._ran, self._depth, done = is_step, known.changes, known.evaluates, 1, False
        waiting = self.steps if self.tapes and not (is_step or self._entered) else None
        if waiting is not None:
            waiting.begin_evaluation()
        begin = stamp()
        try:
            yield lambda: self._trained
            done = True
        except Exception as error:
            if self._trained and not ends_data(error):
                self.raised[said_of(error)] = None
            raise
        finally:
            self._depth, self._eager = 0, None
            self._started |= self._trained and self.tapes > 0
            span = begin, stamp()
            if waiting is not None:
                with self.keeping():
                    self.apart = waiting.end_evaluation(ran=done and self.was_evaluation)
            if (self._trained or self._entered) and self.steps is not None:
                with self.keeping():
                    how = StepEnd(done, self._trained, not self.tapes, self.registry.weights > weights)
                    self.steps.end(self.registry.other_state, how)
            with self._lock:
                events = self.passed = self._events
                self._events = []
            if done and self._trained:
                self._makes(events, span)
                if self._changes and self.steps is not None and self.steps.are_single:
                    self.look()
            elif done and self._entered:
                self._ended = events, span

    @contextlib.contextmanager
    def tracing(self, function: Any) -> Iterator[None]:
        """Around what has a function traced that is not called: its first call runs no Python, and may be a step."""
        before = self._trained, self._entered, self._ran, self._changes
        self._trained = self._entered = self._ran = self._changes = False
        self._depth, self._traces = 1, True
        try:
            yield
            self.remember(function)
        finally:
            self._depth, self._traces = 0, False
            self._trained, self._entered, self._ran, self._changes = before

    def remember(self, function: Any) -> None:
        """Keep what a function is that was traced, or called, just now."""
        if self._changes:
            self.functions.changing.add(function)
        if self._trained:
            self.functions.training.add(function)
        elif self._entered:
            self.functions.by_hand.add(function)
        elif self.tapes and self._ran:
            self.functions.evaluating.add(function)

    def _makes(self, events: list[Event], span: Span) -> None:
        self.made = self._step(events, span)
        if self.at_once:
            self.look()

    def _step(self, events: list[Event], span: Span | None = None) -> StepSeen:
        # The program may have let go of its variables when they are read.
        watched = self.steps is not None or "variables" not in self.reported
        judged = self.registry.judged() if watched else []
        return StepSeen(events, judged, worker=self.worker, span=span, by_hand=not self.tapes)

    def fetch(self, steps: Sequence[StepSeen]) -> None:
        """Bring to steps what has waited of them. What has waited of other calls is forgotten."""
        calls = [(step, step.span) for step in steps if step.span is not None]
        with self.looking("what is seen at every step"):
            came: dict[Any, list[tuple[StepSeen, np.ndarray[Any, Any]]]] = {}
            for place, made_of, words in self._waiting.fetch([span for _, span in calls]):
                came.setdefault(made_of, []).append((calls[place][0], words))
            for made_of, found in came.items():
                for (step, _), event in zip(found, made_of([words for _, words in found]), strict=True):
                    step.events.append(event)

    def look(self, *, last: bool = False) -> None:
        """Look at the step that was made last, if that has not been done; `last` says that no other will follow."""
        if (step := self.made) is not None:
            self.made = None
            if self._events is step.events:
                self._events = []
            self.written(step, last)
            self.number += 1
            self.switch.turn(on=self.in_full)

    @property
    def files(self) -> Files | None:
        """How values leave the graph that is being built, if a worker will run it for a coordinator."""
        return None if self.worker is None else self.shared

    def deliver(self, tensors: Sequence[Any], received: Callable[[list[np.ndarray[Any, Any]]], None]) -> None:
        """Hand the values of tensors over, now or when the graph is run that is being built.

        Only of the steps of which numbers are kept.

        The op that does it has no seed, and TensorFlow numbers the seeds of others by how many were asked for
        (`framework/random_seed.py`), so that the program draws the same numbers.
        """
        import numpy as np

        def take(values: Sequence[Any]) -> None:
            if self.in_full:
                received([np.array(value) for value in values])  # copies: TensorFlow uses the memory again

        self._hand_over(tensors, take)

    def deliver_always(
        self, words: Sequence[Any], made_of: Callable[[Sequence[np.ndarray[Any, Any]]], Sequence[Event]]
    ) -> None:
        """Have an event made of tensors of bytes, [words, 8], at every step, once they are fetched.

        Args:
            words: the tensors.
            made_of: makes an event of each array of words that it is given.
        """
        import numpy as np
        import tensorflow as tf

        def take(values: Sequence[Any]) -> None:
            joined = np.concatenate([np.asarray(value) for value in values])
            self.take(made_of([joined.reshape(-1).view(np.int64)])[0])

        if self.files is not None or tf.executing_eagerly() or not ValueBuffer.is_possible():
            self._hand_over(words, take)
        elif self.sees():
            with self.silent():
                self._waiting.put(words, made_of)

    def _hand_over(self, tensors: Sequence[Any], take: Callable[[Sequence[Any]], None]) -> None:
        import tensorflow as tf
        from tensorflow.python.eager import record
        from tensorflow.python.framework import ops

        if not self.sees():
            return
        with self.silent(), record.stop_recording():
            if tf.executing_eagerly():
                take(tensors)
            elif self._batch is not None and self._batch.graph is ops.get_default_graph():
                self._batch.add(tensors, take)
            else:
                (emit if self.files is None else self.files.emit)(tensors, take)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Around a `Strategy.run` inside of a graph: what is delivered in it leaves by one op a device, at its end.

        Each such op waits for Python, in a thread of TensorFlow's. What is inside of a loop or a branch has its own.
        """
        from tensorflow.python.eager import record
        from tensorflow.python.framework import ops

        before, batch = self._batch, ValueBatch(ops.get_default_graph(), self.switch)
        self._batch = batch
        try:
            yield
        finally:
            self._batch = before
        with self.silent(), record.stop_recording():
            batch.leave(None if self.files is None else self.files.emit)
