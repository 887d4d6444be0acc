"""What the seams of the witness tell of a step, to the run's evidence or to what follows it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.evidence.counters import GivenSeen
from harness.evidence.steps import StepPlace
from harness.evidence.trace import DrawSeen
from harness.recording.steps.python_calls import PythonCall


class NamedVariable(Protocol):
    """What is known of a variable besides itself."""

    @property
    def name(self) -> str:
        """What Keras or TensorFlow calls it."""

    @property
    def number(self) -> int:
        """Of those of this name which one it is, from 0, in the order in which they were made."""


Variables = Sequence[tuple[NamedVariable, Any]]

SORTED = "ArgSort"
"""What draws where a program sorts numbers that it has drawn, for the order that this gives."""


@dataclass(frozen=True)
class ReplicaDraw:
    """What a replica draws.

    Attributes:
        place: of the operation.
        replica: its number over all tasks.
        outputs: what was drawn, tensors.
        operation: its name.
        parameters: tensors that the draws depend on besides seeds and shape.
        seeded: whether the program says by a seed what is drawn.
        call: of Python that may draw, or compute; None of TensorFlow's own operations.
    """

    place: StepPlace
    replica: int
    outputs: Sequence[Any]
    operation: str
    parameters: Sequence[Any]
    seeded: bool
    call: PythonCall | None


@dataclass(frozen=True)
class StepBegin:
    """What is known of a step when it begins.

    Attributes:
        variables: those that are compared where it begins, and so are what it begins with.
        eager: as of `harness.evidence.steps.StepEvidence`.
        worker: as of `harness.evidence.steps.StepEvidence`.
        traced: whether its graph is being built, so that nothing is computed before `Steps.computes`.
        others: gives what else a single step begins with, which is not compared.
    """

    variables: Variables = ()
    eager: int | None = None
    worker: int | None = None
    traced: bool = False
    others: Callable[[], Variables] = tuple


@dataclass(frozen=True)
class StepEnd:
    """How the call has ended that may have been a step.

    Attributes:
        done: whether it came to its end.
        trained: whether it was a step.
        by_hand: whether the program has taken no gradients until now.
        makes_weights: whether it has made variables that may begin with what is drawn.
    """

    done: bool
    trained: bool
    by_hand: bool = False
    makes_weights: bool = False


class Steps(Protocol):
    """Hears of each step when it begins and when it has ended, and of all that passes in between.

    Attributes:
        follows: whether this process follows a run, so that nothing may be left out; else it must not be disturbed.
        waits: whether the run that it follows goes on, so that a step may begin before its evidence is there.
        are_single: whether they are taken out of a longer training: what the program does in between is not judged.
    """

    follows: bool
    waits: bool
    are_single: bool

    @property
    def function(self) -> str:
        """Which function of the program the step that began last is, if it is a single one; else nothing."""

    def called(self, function: str, arguments: Sequence[Any], fed: Collection[int]) -> Sequence[Any] | None:
        """A call is about to be made that may be a single step.

        Args:
            function: tells it from others of the program.
            arguments: the leaves of what it is given.
            fed: the places of those that an earlier call has given back.

        Returns:
            What it is to be given in their place; None where they stay.
        """

    def wants(self, number: int) -> bool:
        """Whether numbers of a step are wanted, which is known by its own number, from 1."""

    def begin(self, step: StepBegin) -> None:
        """A step begins, of which nothing has been computed yet."""

    def computes(self) -> None:
        """A graph is about to be run."""

    @property
    def seeds_beside(self) -> int:
        """How many more seeds TensorFlow counts in the run where one replica here draws without one."""

    @property
    def begins_part(self) -> bool:
        """Whether the step that begins next is the first of a later part of a run that is followed."""

    @property
    def apart(self) -> str | None:
        """Why the step that began last cannot be judged by one replica; None if it can."""

    def report(self, variables: Variables) -> None:
        """The program has reported these, which are compared as they are now; the next step begins with them."""

    @property
    def draws(self) -> tuple[DrawSeen, ...]:
        """What is to be said of the draws of the step that began last."""

    @property
    def examples(self) -> GivenSeen | None:
        """What is to be said of the examples of the step that began last; None where nothing is known."""

    @property
    def counted(self) -> Mapping[str, Any]:
        """What is known at the end of all steps together, by the names of `Counters`."""

    def end(self, variables: Callable[[], Variables], how: StepEnd) -> None:
        """The call has ended that was the step which began last.

        Args:
            variables: gives those of which each replica may have something of its own.
            how: it has ended.
        """

    def was_read(self) -> None:
        """What the step that has ended last has left in variables has been read."""

    def trained(self) -> None:
        """The step that has ended last has trained: the program assigns what its replicas have computed."""

    def begin_evaluation(self) -> None:
        """A call begins that may run replicas; it is not known yet whether it is a step, an evaluation, or neither."""

    def end_evaluation(self, *, ran: bool) -> str | None:
        """That call has ended.

        Args:
            ran: whether it was an evaluation: it ran replicas, and was no step.

        Returns:
            Why what it gives cannot be held against the run's; None if it can.
        """

    def trains_in_eager_run(self, number: int) -> bool | None:
        """Whether gradients are taken in this eager call of `Strategy.run`, if it is known that it is the next step.

        False where it is only likely: it is to begin with what that step began with, and turns out to be one, or not.
        """

    def own_ids(self, reported: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
        """The ids of examples that a step had in this process, of those that the program reports."""

    def given(self, run: int, leaves: Mapping[int, Sequence[Sequence[Any]]]) -> list[list[Sequence[Any]]] | None:
        """A call of `Strategy.run` gives its replicas examples.

        Args:
            run: its number within the step.
            leaves: by its number among the leaves of the arguments, what each local replica gets of one that holds
                examples, as `harness.recording.steps.row_parts.row_parts`.

        Returns:
            For each leaf the parts that each replica is to be given in its place; None where it stays as it is.
        """

    def drawn(self, draw: ReplicaDraw) -> list[Any]:
        """A replica draws random numbers, and this is what the program is to get."""

    def batches(self, inputs: Any, *, traced: bool) -> Any:
        """A layer normalises by the statistics of its input, of a replica that is given all the rows of a step.

        Args:
            inputs: a tensor, [rows, ...].
            traced: whether Python may be asked when the graph is run.

        Returns:
            How many of these rows each replica of the run had, int32 [R]; None where they are one batch.
        """

    def blind(self, why: str) -> None:
        """Replicas draw what cannot be seen, in a function that is called from now on."""

    def close(self) -> None:
        """The program has ended."""
