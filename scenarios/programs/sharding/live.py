"""A cluster that stays up and answers what each replica is given by one input pipeline after the other.

Starting a cluster costs half a second and more, a pipeline some 0.1 s: with this Hypothesis can draw and shrink
pipelines on real clusters.
"""

from __future__ import annotations

import contextlib
import selectors
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness import StrategyCase, strategy_case
from harness.evidence.trace import ClientTrace, Header, RunTrace, Step, merge
from scenarios.programs.sharding import contracts, pipelines
from scenarios.programs.sharding.pipelines import Pipeline
from scenarios.programs.sharding.talking import Talk, connected, talking
from simulator.agent import current
from simulator.machines.local.scratch import scratch
from simulator.wire.spec import TaskSpec

_ANSWER_SECONDS = 60.0
# After one task has failed, the others may be waiting for it for ever.
_STRAGGLER_SECONDS = 2.0


class PipelineFailed(Exception):
    """Raised when a task could not iterate over the pipeline, or did not come to its end.

    Attributes:
        errors: class and message by task; the empty text for a task that was still waiting.
    """

    def __init__(self, errors: dict[str, str]) -> None:
        super().__init__("; ".join(f"{task}: {error or 'still waiting'}" for task, error in errors.items()))
        self.errors = errors


class _Answer(msgspec.Struct, frozen=True):
    task: str
    # (epoch, ids of each local replica) of each step
    steps: tuple[tuple[int, tuple[tuple[int, ...], ...]], ...] = ()
    error: str = ""


class Live:
    """The parent's side of a live cluster; see `live`."""

    def __init__(self, case: StrategyCase, talk: Talk) -> None:
        self.case = case
        self._talk = talk

    @property
    def spoilt(self) -> bool:
        """Whether a pipeline has failed: then the cluster answers no more."""
        return self._talk.spoilt

    def ask(self, pipeline: Pipeline) -> RunTrace:
        """What each replica of each task is given at each step.

        Raises:
            PipelineFailed: a task raised, or did not answer in time; the cluster cannot be used any more.
        """
        for task in self._talk.files:
            self._talk.tell(task, msgspec.json.encode(pipeline))
        answers = {answer.task: answer for answer in self._answers()}
        tasks = self._talk.files
        if len(answers) < len(tasks) or any(answer.error for answer in answers.values()):
            self._talk.spoilt = True
            raise PipelineFailed({task: answers[task].error if task in answers else "" for task in tasks})
        return merge([self._trace(answer) for answer in answers.values()])

    def _answers(self) -> Iterator[_Answer]:
        """The answers as they come, until all are there or a deadline has passed."""
        with selectors.DefaultSelector() as waiting:
            for task, connection in self._talk.sockets.items():
                waiting.register(connection, selectors.EVENT_READ, task)
            deadline = time.monotonic() + _ANSWER_SECONDS
            while waiting.get_map() and (ready := waiting.select(max(0.0, deadline - time.monotonic()))):
                for key, _ in ready:
                    waiting.unregister(key.fileobj)
                    # A task that has died says nothing.
                    line = self._talk.hear(key.data)
                    answer = msgspec.json.decode(line, type=_Answer) if line else None
                    if answer is None or answer.error:
                        deadline = min(deadline, time.monotonic() + _STRAGGLER_SECONDS)
                    if answer is not None:
                        yield answer

    def _trace(self, answer: _Answer) -> ClientTrace:
        header = Header(
            task=answer.task,
            incarnation=0,
            strategy=self.case.name,
            replicas=self.case.replicas,
            local_replicas=self.case.devices,
            clients=len(self.case.clients),
            seed=0,
        )
        steps = tuple(
            Step(index=index, at=float(index), examples=examples, epoch=epoch)
            for index, (epoch, examples) in enumerate(answer.steps, 1)
        )
        return ClientTrace(header=header, steps=steps)


@contextlib.contextmanager
def live(strategy: str | StrategyCase) -> Iterator[Live]:
    """Start the cluster of a synchronous strategy, and stop it at the end of the context."""
    case = strategy_case(strategy)
    with scratch("live") as directory, talking(case.topology, _serve, case, str(directory)) as talk:
        yield Live(case, talk)


class Asking:
    """Clusters that are started when they are first asked; one that a pipeline has spoilt is replaced."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._running: dict[str, Live] = {}
        self._undistributed: dict[Pipeline, contracts.Epochs] = {}

    def __call__(self, strategy: str | StrategyCase, pipeline: Pipeline) -> RunTrace:
        """What each replica is given; see `Live.ask`."""
        name = str(strategy)
        if name not in self._running or self._running[name].spoilt:
            self._running[name] = self._stack.enter_context(live(strategy))
        return self._running[name].ask(pipeline)

    def expected(self, strategy: StrategyCase, pipeline: Pipeline) -> contracts.Seen:
        """By the contract of the policy, from the batches that the same pipeline yields on one device."""
        same = msgspec.structs.replace(pipeline, policy="OFF")
        if same not in self._undistributed:
            self._undistributed[same] = contracts.epochs_of(self("one_device", same), pipeline.epochs)
        return contracts.contract(pipeline, strategy, self._undistributed[same])


@contextlib.contextmanager
def asking() -> Iterator[Asking]:
    """Any number of live clusters, stopped at the end of the context."""
    with contextlib.ExitStack() as stack:
        yield Asking(stack)


def _serve(address: str, case: StrategyCase, directory: str) -> None:
    """Runs in each client task until the parent hangs up."""
    task = current()
    assert task is not None
    strategy = case.build()
    with connected(address) as file:
        for line in file:
            pipeline = msgspec.json.decode(line, type=Pipeline)
            file.write(msgspec.json.encode(_answer(strategy, task.spec, pipeline, Path(directory))) + b"\n")
            file.flush()


def _answer(strategy: Any, spec: TaskSpec, pipeline: Pipeline, directory: Path) -> _Answer:
    import tensorflow as tf

    tf.random.set_seed(20 if pipeline.seeds else 20 + pipelines.number_of(spec.task))
    try:
        distributed = pipelines.distribute(strategy, pipeline, directory)
        steps = []
        for epoch in range(pipeline.epochs):
            for batch in distributed:
                parts = zip(*(strategy.experimental_local_results(part) for part in batch), strict=True)
                steps.append((epoch, tuple(tuple(pipelines.ids_of(part)) for part in parts)))
    except (tf.errors.OpError, ValueError, AssertionError) as error:
        return _Answer(spec.task, error=f"{type(error).__name__}: {error}")
    return _Answer(spec.task, tuple(steps))
