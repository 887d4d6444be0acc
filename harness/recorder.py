"""`record`: how a program under test reports what it did."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from harness._capture import capture_examples, capture_value, capture_values, capture_variable, variable_names
from harness._noise import Noise
from harness.trace import Counters, Final, Header, Step, TraceWriter, Variable
from simulator import agent

__all__ = ["Recorder"]


class Recorder:
    """Passed to a program as `record`; writes one trace file per client process.

    Call it outside `strategy.run`, in every client process alike.

    Attributes:
        directory: a folder that survives an interruption of the run; a resumable program saves and restores there.
    """

    def __init__(self, strategy: Any, header: Header, trace: Path, directory: Path, noise: Noise | None = None) -> None:
        self.directory = directory
        self._strategy = strategy
        self._writer = TraceWriter(trace)
        self._writer.write(header)
        self._noise = noise
        self._steps = 0
        self._observed = 0
        self._per_epoch = False
        self._finished = False

    def step(
        self,
        *,
        loss: Any = None,
        gradients: Any = None,
        variables: Any = None,
        examples: Any = None,
        metrics: Any = None,
    ) -> None:
        """Report one training step. Every argument is optional.

        Args:
            loss: the step's loss: a tensor, array, float, or a PerReplica of scalars, which counts as its sum over all replicas
                (the convention of `tf.nn.compute_average_loss`).
            gradients: a sequence or mapping of gradients, dense or IndexedSlices; PerReplica ones count as their sum.
            variables: TensorFlow or Keras variables; every replica's copy is captured. Add the optimizer's to have its slots and
                iteration counter judged.
            examples: integer ids of the examples that this client consumed in this step; a PerReplica keeps replicas apart.
            metrics: a mapping from name to value or Keras metric.
        """
        self._write_step(loss=loss, gradients=gradients, variables=variables, examples=examples, metrics=metrics)

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
        self._count(variables, predictions, metrics)
        self._writer.write(
            Final(
                at=time.monotonic(),
                variables=self._variables(variables),
                predictions=None if predictions is None else capture_values(self._strategy, predictions, "predictions"),
                metrics=None if metrics is None else capture_values(self._strategy, metrics, "metric"),
            )
        )

    def keras_callback(self, model: Any) -> Any:
        """A callback for `model.fit`, for Keras 3 and tf_keras models, that calls `step` after each batch and `final` at the end.

        Recorded are the logs (Keras reports the running mean over the epoch), the model's variables and the optimizer's. Under
        ParameterServerStrategy, where Keras allows no batch hooks, each epoch is one step.
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

    @property
    def finished(self) -> bool:
        """Whether `final` has been called."""
        return self._finished

    def _write_step(self, *, epoch: int | None = None, per_epoch: bool = False, **reported: Any) -> None:
        self._steps += 1
        self._per_epoch = self._per_epoch or per_epoch
        self._count(*reported.values())
        variables = reported["variables"]
        if self._noise is not None and variables is not None:
            self._noise.nudge(_flat(variables))
        loss, gradients, examples, metrics = (reported[name] for name in ("loss", "gradients", "examples", "metrics"))
        self._writer.write(
            Step(
                index=self._steps,
                at=time.monotonic(),
                loss=None if loss is None else capture_value(self._strategy, "loss", loss),
                gradients=None if gradients is None else capture_values(self._strategy, gradients, "gradient"),
                variables=self._variables(variables),
                examples=None if examples is None else capture_examples(self._strategy, examples),
                metrics=None if metrics is None else capture_values(self._strategy, metrics, "metric"),
                epoch=epoch,
            )
        )
        if (task := agent.current()) is not None:
            task.step(self._steps)

    def _variables(self, variables: Any) -> tuple[Variable, ...] | None:
        if variables is None:
            return None
        if isinstance(variables, dict):
            pairs = [(str(name), variable) for name, variable in variables.items()]
        else:
            flat = _flat(variables)
            pairs = list(zip(variable_names(flat), flat, strict=True))
        return tuple(capture_variable(self._strategy, name, variable) for name, variable in pairs)

    def _count(self, *values: Any) -> None:
        self._observed += sum(1 for value in values if value is not None and not _is_empty(value))

    def close(self, scheduled: int | None = None) -> None:
        """Write what the harness itself has counted, and close the file."""
        self._writer.write(Counters(scheduled=scheduled, per_epoch=self._per_epoch))
        self._writer.close()


def _is_empty(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict)) and not value


def _flat(variables: Any) -> list[Any]:
    if isinstance(variables, dict):
        return list(variables.values())
    if isinstance(variables, (list, tuple)) or type(variables).__name__ in ("ListWrapper", "_TupleWrapper", "CallableList"):
        return [leaf for item in variables for leaf in _flat(item)]
    return [variables]
