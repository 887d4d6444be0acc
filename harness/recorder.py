"""`record`: how a program under test reports what it did."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness._capture import capture_examples, capture_value, capture_values, capture_variables, flat_variables
from harness._noise import Noise
from harness.trace import Counters, Final, Header, Step, TraceWriter, Value, Variable
from simulator import agent

__all__ = ["Recorder"]


class Recorder:
    """Passed to a program as `record`; writes one trace file per client process.

    Call it outside `strategy.run`, in every client process alike.

    Attributes:
        directory: a folder that survives an interruption of the run; a resumable program saves and restores there.
        scheduled: set by the harness; tells how many closures a coordinator has been given so far.
    """

    def __init__(self, strategy: Any, header: Header, trace: Path, directory: Path, noise: Noise | None = None) -> None:
        self.directory = directory
        self.scheduled: Callable[[], int | None] = lambda: None
        self._strategy = strategy
        self._writer = TraceWriter(trace)
        self._writer.write(header)
        self._noise = noise
        self._steps = 0
        self._observed = 0
        self._per_epoch = False
        self._final: Final | None = None
        self._finished = False

    def step(
        self,
        *,
        loss: Any = None,
        gradients: Any = None,
        variables: Any = None,
        examples: Any = None,
        metrics: Any = None,
        epoch: int | None = None,
    ) -> None:
        """Report one training step. Every argument is optional.

        Args:
            loss: the step's loss: a tensor, array, float, or a PerReplica of scalars, which counts as its sum over all
                replicas (the convention of `tf.nn.compute_average_loss`).
            gradients: a sequence or mapping of gradients, dense or IndexedSlices; PerReplica ones count as their sum.
            variables: TensorFlow or Keras variables; every replica's copy is captured. Add the optimizer's to have its
                slots and iteration counter judged.
            examples: integer ids of the examples that this client consumed in this step; a PerReplica keeps replicas
                apart. The chief of parameter-server training may give a mapping from task, such as `worker:0`, to the
                ids that this task consumed.
            metrics: a mapping from name to value or Keras metric.
            epoch: the number of the epoch that this step belongs to.

        Raises:
            TypeError: `examples` or `epoch` are not integers.
            ValueError: a key of `examples` is no task, or an id does not fit into 64 bits with a sign.
        """
        self._write_step(
            loss=loss,
            gradients=gradients,
            variables=variables,
            examples=examples,
            metrics=metrics,
            epoch=None if epoch is None else operator.index(epoch),
        )

    def final(self, *, variables: Any = None, predictions: Any = None, metrics: Any = None) -> None:
        """Report the end of the run, once.

        Args:
            variables: as in `step`.
            predictions: an array, tensor, PerReplica, or a mapping of them, in input order.
            metrics: as in `step`.

        Raises:
            RuntimeError: called a second time.
        """
        if self._finished:
            raise RuntimeError("record.final was called twice; a run has one end")
        self._finished = True
        self._write_final(variables=variables, predictions=predictions, metrics=metrics)

    def keras_callback(self, model: Any) -> Any:
        """A callback for `fit` of Keras 3 and tf_keras that does `step` after each batch and `final` at the end.

        Recorded are the logs (Keras reports the running mean over the epoch), the model's variables and the
        optimizer's. Under ParameterServerStrategy, where Keras allows no batch hooks, each epoch is one step. The
        program may still call `final` itself, for example with predictions; what it gives there is added to what the
        callback has reported.
        """
        from harness._keras_callback import make_callback

        return make_callback(self, model)

    @property
    def strategy(self) -> Any:
        """The strategy of this run."""
        return self._strategy

    @property
    def observed(self) -> int:
        """How many values have been reported."""
        return self._observed

    def _write_step(self, *, epoch: int | None = None, per_epoch: bool = False, **reported: Any) -> None:
        self._steps += 1
        if per_epoch and not self._per_epoch:
            self._per_epoch = True
            self._writer.write(Counters(per_epoch=True))  # now, because a process that is killed never closes
        self._count(*reported.values())
        variables = reported["variables"]
        if self._noise is not None and variables is not None:
            self._noise.nudge(flat_variables(variables))
        loss, gradients, examples, metrics = (reported[name] for name in ("loss", "gradients", "examples", "metrics"))
        shards, consumers = (None, None) if examples is None else capture_examples(self._strategy, examples)
        self._writer.write(
            Step(
                index=self._steps,
                at=time.monotonic(),
                loss=None if loss is None else capture_value(self._strategy, "loss", loss),
                gradients=self._values(gradients, "gradient"),
                variables=self._variables(variables),
                examples=shards,
                metrics=self._values(metrics, "metric"),
                epoch=epoch,
                consumers=consumers,
                scheduled=self.scheduled(),
            )
        )
        if (task := agent.current()) is not None:
            task.step(self._steps)

    def _write_final(self, *, variables: Any = None, predictions: Any = None, metrics: Any = None) -> None:
        """Write what is reported of the end, together with what has been reported of it before."""
        self._count(variables, predictions, metrics)
        before = self._final or Final(at=0.0)
        merged = {**_by_name(before.metrics), **_by_name(self._values(metrics, "metric"))}
        self._final = Final(
            at=time.monotonic(),
            variables=before.variables if variables is None else self._variables(variables),
            predictions=before.predictions if predictions is None else self._values(predictions, "predictions"),
            metrics=tuple(merged.values()) or None,
        )
        self._writer.write(self._final)

    def _values(self, values: Any, prefix: str) -> tuple[Value, ...] | None:
        return None if values is None else capture_values(self._strategy, values, prefix)

    def _variables(self, variables: Any) -> tuple[Variable, ...] | None:
        return None if variables is None else capture_variables(self._strategy, variables)

    def _count(self, *values: Any) -> None:
        self._observed += sum(not _is_empty(value) for value in values)

    def close(self, **counted: Any) -> None:
        """Write what the harness itself has counted, by the names of `Counters`, and close the file."""
        self._writer.write(Counters(per_epoch=self._per_epoch, **counted))
        self._writer.close()


def _by_name(values: tuple[Value, ...] | None) -> dict[str, Value]:
    return {value.name: value for value in values or ()}


def _is_empty(value: Any) -> bool:
    """Whether nothing is in there, as in a list of the gradients that a model does not have."""
    if isinstance(value, Mapping):
        value = list(value.values())
    return all(map(_is_empty, value)) if isinstance(value, (list, tuple)) else value is None
