"""The witness of one process: which seams it has, and how what they see becomes frames of the trace."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from harness.evidence.assignments import Assignment
from harness.evidence.averages import Average
from harness.evidence.observed import unique_names
from harness.evidence.own_state import joined
from harness.evidence.steps import FOR_ALL, EvidenceWriter, RunEvidence, Standing
from harness.evidence.trace import Array, Evaluated, MeanSeen, Seen, SeenVariable, Start, Value
from harness.recording.closure_files import Files
from harness.recording.noise import Noise
from harness.recording.owners import METRIC
from harness.recording.steps import Follower, RunEvidenceWriter, SampleWriter
from harness.recording.steps.evidence_of_run import Deliver
from harness.recording.tensors import tensor_of
from harness.recording.watch import ByHand, Watch
from harness.recording.witness._arguments import arguments_of
from harness.recording.witness._call_results import values_of
from harness.recording.witness._registry import VariableEntry
from harness.recording.witness._step_events import Event, StepSeen
from harness.recording.witness._values import LOSS
from harness.recording.witness._variables import first_values, is_large, own_copies, read
from harness.recording.witness.metrics import EVENT
from harness.recording.witness.protocol import Seam, WitnessState
from simulator.agent import now

if TYPE_CHECKING:
    import numpy as np

_HELD_MAX = 16
"""Steps of which only examples are seen are written together, so many at most: a step takes less time then. A process
that is killed loses those since; of a run in which that may be, all is kept of each step at once.
"""

_OF_RESULTS = "whether numbers that a step gives back are right, such as a loss that is printed"
_OF_METRICS = "whether what Keras metrics keep is right, such as a mean of losses that is printed"


class Witness:
    """Writes what it sees of each training step into the trace, next to what the program reports.

    Args:
        strategy: of this run.
        local_replicas: how many of its replicas this process has.
        seams: where it looks.
        noise: of a rerun of the reference: variables that the program does not report are perturbed as those that it
            does.
        watch: of a rerun of which a step is watched, in which this is not the program's.
        at_once: as of `WitnessState`.
        keeps: where the evidence of the steps is to be kept, None where nobody wants it.
        follows: the evidence of the run that this process is to follow.
        standing: of the replicas that follow.
        first_replica: the number of the first local replica, over all tasks.
        alone: whether no other process trains with this one.

    Attributes:
        at_work: how many of this process see what the program does.
    """

    at_work: ClassVar[int] = 0

    def __init__(
        self,
        strategy: Any,
        local_replicas: int,
        seams: Iterable[Seam],
        noise: Noise | None = None,
        watch: Watch | ByHand | None = None,
        *,
        at_once: bool = False,
        keeps: Path | None = None,
        follows: RunEvidence | None = None,
        first_replica: int = 0,
        standing: Standing = FOR_ALL,
        alone: bool = True,
    ) -> None:
        quiet = [each for each in (noise, watch) if each is not None]

        @contextlib.contextmanager
        def silent() -> Iterator[None]:
            with contextlib.ExitStack() as stack:
                for each in quiet:
                    stack.enter_context(each.silent())
                yield

        self._gathered = WitnessState(strategy, local_replicas, silent, at_once=at_once, alone=alone)
        self._gathered.settled = self._settle
        self._gathered.written = self._write
        self._gathered.started = self._start
        self._gathered.evaluated = self._evaluated
        self._results: dict[str, tuple[int, int]] = {}
        self._gathered.is_quiet = lambda: noise is not None and noise.is_silent
        if keeps is not None:
            numbers = range(first_replica, first_replica + max(1, local_replicas))
            writer = EvidenceWriter(keeps)
            self._gathered.steps = RunEvidenceWriter(writer, numbers, self._gathered.deliver, at_once=at_once)
        if follows is not None:
            self._gathered.steps = Follower(follows, noise, silent, standing)
        self._noise = noise
        self._seams = () if strategy is not None and (why := _blind(strategy, keeps)) else tuple(seams)
        if strategy is not None and why:
            self._gathered.note(why)
        self._send: Callable[[Any], None] = lambda frame: None
        self._stepped: Callable[[int], None] = lambda index: None
        self._held: list[tuple[StepSeen, Seen]] = []
        self._open: tuple[StepSeen, Seen] | None = None
        self._calls = 0
        self.observed = 0

    def adopt(self, strategy: Any) -> None:
        """Know the strategy of the run, where that is built while the program is watched.

        Closures of a coordinator are seen then, in this process or by files; see `closures`.
        """
        self._gathered.adopt(strategy)
        self._gathered.switch.turn(on=self._gathered.in_full)

    def know(self, model: Any) -> None:
        """Know the variables of a Keras model that was built before, in the order in which they were made."""
        optimizer = model.optimizer.variables
        owned = [("a layer", each) for each in model.weights]
        owned += [("an optimizer", each) for each in (optimizer() if callable(optimizer) else optimizer)]
        for owner, variable in sorted(owned, key=lambda each: _made_at(each[1])):
            self._gathered.registry.add(variable, owner)

    def leave(
        self, make: Callable[[Deliver, Callable[[Callable[[], Sequence[Any]]], None]], SampleWriter]
    ) -> SampleWriter:
        """Have the evidence of some steps left; to be called before anything is seen.

        Args:
            make: makes what leaves it, of what hands values over, and of what hands over a digest for each replica.
        """
        found = self._gathered.steps = make(self._gathered.deliver, self._deliver_digests)
        return found

    def _deliver_digests(self, made: Callable[[], Sequence[Any]]) -> None:
        """Have the examples of a step be known by digests, for each local replica an int64, at every step.

        A program goes on without them if they cannot be made.
        """
        import tensorflow as tf

        gathered = self._gathered
        site = gathered.site()

        def made_of(several: Sequence[np.ndarray[Any, Any]]) -> list[Event]:
            return [Event("examples", 0, site, (), tuple(words.reshape(-1, 1))) for words in several]

        with gathered.looking("digests of examples"):
            gathered.deliver_always([tf.bitcast(tf.reshape(each, [1]), tf.uint8) for each in made()], made_of)

    def through(self, files: Files, *, only_closures: bool = False) -> None:
        """Have values leave graphs by files, since these are run in other processes.

        Args:
            files: by which.
            only_closures: whether nothing is a step but what a coordinator schedules.
        """
        self._gathered.only_closures = only_closures
        self._gathered.shared = files

    @contextlib.contextmanager
    def active(
        self, send: Callable[[Any], None], stepped: Callable[[int], None] = lambda index: None
    ) -> Iterator[None]:
        """See what the program does in this context.

        Args:
            send: gets the frame of each step, in their order; of several at once where little is seen of them.
            stepped: hears of each step when that is looked at.
        """
        self._send, self._stepped = send, stepped
        with contextlib.ExitStack() as stack:
            for seam in self._seams:
                stack.enter_context(seam.active(self._gathered))
            Witness.at_work += 1
            try:
                yield
                # The program has ended; nothing follows in which its last step would be looked at.
                self._gathered.look(last=True)
                self._settle(last=True)
                if self._gathered.at_once and self._gathered.number > 1:
                    self._start()
            finally:
                Witness.at_work -= 1
                if self._gathered.steps is not None:
                    with self._gathered.keeping():
                        self._gathered.steps.close()
                self.send_held()

    def reported(self, observables: Iterable[str], *, step: bool) -> None:
        """The program is about to report these, as of a step or of the end: what it reports is not looked at again."""
        self._gathered.reported.update(observables)
        self._gathered.look()
        self._calls += step

    def took(self, variables: Iterable[Any]) -> None:
        """The program has reported these variables, which have been read."""
        gathered = self._gathered
        if gathered.steps is not None:
            with gathered.keeping():
                gathered.steps.report(gathered.registry.report(variables))

    def of_metric(self, variable: Any) -> bool:
        """Whether a Keras metric keeps this variable: it has the metric's result, but may count each replica once."""
        entry = self._gathered.registry.entry(variable)
        if entry is None or entry.owner != METRIC:
            return False
        told = "what a Keras metric keeps is not compared as a variable, since it may count replicas"
        self._gathered.raised[f"{told}; report metrics={{name: metric.result()}}"] = None
        return True

    def own_ids(self, reported: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
        """The ids of examples that this process was given itself, of those that the program reports."""
        return reported if self._gathered.steps is None else self._gathered.steps.own_ids(reported)

    @property
    def takes_gradients(self) -> bool:
        """Whether the program has taken gradients by now: steps before that are by hand."""
        return self._gathered.tapes > 0

    @property
    def steps_seen(self) -> int:
        """How many steps the program has taken by now that were looked at."""
        return self._gathered.number - 1

    def trains(self, function: Any) -> bool:
        """Whether a function that was called, or scheduled, has made a step."""
        return function in self._gathered.functions.training

    def note(self, text: str) -> None:
        """Keep a sentence about something that cannot be seen."""
        self._gathered.note(text)

    @property
    def unseen(self) -> tuple[str, ...]:
        """What could not be seen."""
        gathered = self._gathered
        gives = [_OF_RESULTS] if gathered.gives_parts and not gathered.reduces else []
        kept = gathered.has_own_step and gathered.registry.has_metrics and "metrics" not in gathered.reported
        parts = (f"whether what {name} gives each replica is right" for name in gathered.noted.unreduced)
        return (*gathered.unseen, *gives, *parts, *([_OF_METRICS] if kept else []))

    @property
    def raised(self) -> tuple[str, ...]:
        """What is always to be said, as of steps that raised."""
        return tuple(self._gathered.raised)

    @property
    def overwritten(self) -> tuple[str, ...]:
        """What is to be said of arrays of the program's that were written over."""
        return tuple(self._gathered.overwritten)

    @property
    def counted(self) -> dict[str, Any]:
        """What is known when the program has ended, by the names of `Counters`."""
        gathered, noted = self._gathered, self._gathered.noted
        pipelines = (msgspec.structs.replace(pipeline, step=step) for pipeline, step in noted.pipelines.items())
        return {
            "unseen": self.unseen,
            "raised": self.raised,
            "overwritten": self.overwritten,
            **({} if gathered.steps is None else gathered.steps.counted),
            "apart": None if gathered.steps is None else gathered.steps.apart,
            "trains_aside": gathered.threads.gradients_aside and not gathered.tapes,
            "tables": tuple(noted.tables),
            "by_replica": tuple(noted.by_replica),
            "packed": tuple(noted.packed.items()),
            "pipelines": tuple(pipelines),
            "restored": tuple(noted.restored),
            "assigned": tuple(Assignment(*where, *when) for where, when in noted.assigned.items()),
            "averages": tuple(Average(line, batch, step) for (line, batch), step in noted.averages.items()),
            "unread": tuple(gathered.registry.unread()),
            "state": tuple(gathered.registry.own_state()),
        }

    def send_held(self) -> None:
        """Write what has been held back of steps that were looked at."""
        held, self._held = self._held, []
        self._gathered.fetch([step for step, _ in held])
        for step, seen in held:
            whole = seen
            with self._gathered.looking("what has passed in a step"):
                found = {"means": _means(step.events), "arguments": arguments_of(step.events)}
                found |= _examples(step.events, self._gathered) | _numbers(step.events)
                whole = msgspec.structs.replace(seen, **found)
            self.observed += bool(whole.variables or whole.loss or whole.losses)
            self._send(whole)

    def _start(self) -> None:
        """Write what the variables hold before a step begins: the first of the training or of a part, or each one.

        What they hold at the end, where each step is looked at at once, is what one more step would begin with.
        """
        gathered = self._gathered
        if gathered.number == 1:
            gc.collect()  # a model that the program has put another one in place of is no state of its
        lead = gathered.number > 1 and not gathered.tapes
        often = lead or (gathered.number > 1 and gathered.at_once)
        if often and is_large(variable for _, variable in gathered.registry.state()):
            return
        with gathered.looking("what the first step begins with"), gathered.silent():
            values = first_values(gathered.registry.state(), gathered.reader)
            self._send(Start(now(), (*values, *gathered.memory()), gathered.number, self._calls, lead))

    def _evaluated(self, result: Any, name: str, *, trains: bool, reduces: bool = False) -> None:
        """Write what a step or an evaluation has given back, as far as it is one number, or array, for all replicas."""
        gathered, (last, number) = self._gathered, self._results.get(name, (0, 0))
        steps = gathered.steps
        apart = gathered.apart if steps is None or gathered.was_evaluation else steps.apart
        after = gathered.number - (not gathered.has_step)  # it has been looked at if the program has reported since
        number = number if last == after else 0
        self._results[name] = after, number + 1
        with gathered.silent():
            values = values_of(result, with_integers=not trains)
        means = () if trains or reduces else _means(gathered.passed)
        if values or means:
            self._send(Evaluated(after, number, now(), name, values, apart, trains, means, reduces))

    def _variables(self, step: StepSeen, index: int, *, last: bool) -> tuple[SeenVariable, ...] | None:
        import tensorflow as tf

        gathered = self._gathered
        wanted = gathered.in_full or last
        last = last or (gathered.steps is not None and gathered.steps.are_single)  # few are, so that all can be kept
        variables = [(entry, variable) for entry, variable in step.variables if not entry.reported]
        if not variables or not (wanted or self._noise):
            return None
        nudges = self._noise is not None and gathered.steps is None
        # Another step may be being traced already.
        with gathered.looking("variables"), tf.init_scope():
            if self._noise is not None and nudges:  # a process that follows is perturbed when its steps begin
                self._noise.nudge(variable for _, variable in variables)
            return read(gathered, variables, index, last=last) if wanted else None

    def _own(self) -> tuple[SeenVariable, ...]:
        """What replicas have each for itself after a step that is judged without the next one."""
        import tensorflow as tf

        gathered = self._gathered
        if gathered.steps is None or not (gathered.steps.are_single and gathered.in_full):
            return ()
        found: list[SeenVariable] = []
        with gathered.looking("what each replica keeps"), tf.init_scope():
            found += own_copies(gathered.registry.unjudged_state(), gathered.reader)
        return tuple(found)

    def _write(self, step: StepSeen, last: bool) -> None:
        gathered = self._gathered
        self._settle()
        seen = Seen(
            index=gathered.number,
            at=now(),
            after=self._calls,
            loss=None if "loss" in gathered.reported else step.loss,
            worker=step.worker,
            apart=None if gathered.steps is None else gathered.steps.apart,
            draws=() if gathered.steps is None else gathered.steps.draws,
            given=None if gathered.steps is None else gathered.steps.examples,
            by_hand=step.by_hand,
            called="" if gathered.steps is None else gathered.steps.function,
        )
        self._open = step, seen
        if "variables" not in gathered.reported or gathered.steps is None:
            self._settle(last=last)
        if gathered.steps is not None:
            with gathered.keeping(), gathered.silent():
                gathered.steps.was_read()
        self._stepped(seen.index)

    def _settle(self, *, last: bool = False) -> None:
        """Read the variables that a step has left, and write it.

        Of a program that reports variables the others are read when the next step begins, when what it does to them in
        between has been done. By then it is known which it reports.
        """
        if self._open is None:
            return
        (step, seen), self._open = self._open, None
        variables, own = self._variables(step, seen.index, last=last), self._own()
        if own and self._gathered.steps is not None and self._gathered.steps.follows:
            known = (variable for state in joined([own]) for variable in state.of_reference)
            variables, own = (*(variables or ()), *known), ()
        step.variables = []  # a program may let go of them
        self._held.append((step, msgspec.structs.replace(seen, variables=variables, own=own)))
        if self._gathered.in_full or last or len(self._held) == _HELD_MAX:
            self.send_held()


def _made_at(variable: Any) -> int:
    """Counts the variables of a process, as TensorFlow has numbered them."""
    return int(tensor_of(variable)._unique_id.rpartition("_")[2])  # noqa: SLF001 - nothing public tells


def _blind(strategy: Any, keeps: Path | None) -> str | None:
    """Why nothing can be seen under this strategy; None where something can."""
    import tensorflow as tf

    if isinstance(strategy, tf.distribute.ParameterServerStrategy) and keeps is None:
        return "what workers do for a coordinator: no Python of this process runs there"
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return "what replicas of a TPU do, where no Python runs"
    return None


def _name(name: Any) -> str:
    return name.name if isinstance(name, VariableEntry) else str(name)


def _numbers(events: list[Event]) -> dict[str, tuple[Value, ...]]:
    """What was handed over at steps of which numbers are kept."""
    taken = sorted((each for each in events if each.kind == "tape"), key=lambda each: (each.replica, each.site))
    reduced = sorted((each for each in events if each.kind == "reduced"), key=lambda each: each.site)
    return {
        "losses": _by_replica(taken, lambda name: name == LOSS),
        "gradients": _by_replica(taken, lambda name: name != LOSS),
        # In the order in which the program was written.
        "reduced": tuple(
            Value(how, (Array.of(array),))
            for each in reduced
            for how, array in zip(each.names, each.arrays, strict=True)
        ),
    }


def _means(events: list[Event]) -> tuple[MeanSeen, ...]:
    """What every replica has added to each mean; in a loop, all together."""
    by_replica: dict[int, dict[int, tuple[Event, Any]]] = {}
    added = (each for each in events if each.kind == EVENT)
    for event in sorted(added, key=lambda each: (each.replica, each.site)):
        sites = by_replica.setdefault(event.replica, {})
        before = sites.get(event.site, (event, 0))[1]
        sites[event.site] = event, before + event.arrays[0]
    named = [
        dict(zip(unique_names([event.names[0] for event, _ in sites.values()]), sites.values(), strict=True))
        for sites in by_replica.values()
    ]
    return tuple(
        MeanSeen(name, event.names[1], tuple(Array.of(each[name][1]) for each in named))
        for name, (event, _) in (named[0].items() if named else ())
        if all(name in each for each in named)
    )


def _by_replica(events: list[Event], wanted: Callable[[Any], bool]) -> tuple[Value, ...]:
    """Values with one part for each replica; those that not every replica has are left out."""
    found: dict[int, list[tuple[str, Array]]] = {}
    for event in events:
        pairs = zip(event.names, event.arrays, strict=True)
        found.setdefault(event.replica, []).extend(
            (_name(name), Array.of(array)) for name, array in pairs if wanted(name)
        )
    if not found:
        return ()
    by_replica = [
        dict(zip(unique_names([name for name, _ in each]), [array for _, array in each], strict=True))
        for _, each in sorted(found.items())
    ]
    return tuple(
        Value(name, tuple(each[name] for each in by_replica), per_replica=True)
        for name in by_replica[0]
        if all(name in each for each in by_replica)
    )


def _examples(events: list[Event], gathered: WitnessState) -> dict[str, Any]:
    """For each local replica the examples in the order in which it was called with them, in the fields of `Seen`.

    A step may call its replicas with a distributed batch, and again with the same tensor for each of them: the examples
    of that are there once, as they are with one replica.
    """
    of_kind = {kind: [each for each in events if each.kind == kind] for kind in ("examples", "constants")}
    found = sorted(of_kind["examples"] or of_kind["constants"], key=lambda each: each.site)
    if not found or "examples" in gathered.reported:
        return {}
    columns = found[0].names if all(event.names == found[0].names for event in found) else ()
    joined = itertools.zip_longest(*([rows.tolist() for rows in event.arrays] for event in found), fillvalue=())
    rows = tuple(tuple(itertools.chain(*each)) for each in joined)
    return {"columns": columns, "examples": rows, "calls": len(found)}
