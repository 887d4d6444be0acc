"""`record`: how a program under test reports what it did."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.evidence.counters import Counters
from harness.evidence.trace import Final, Header, Step
from harness.evidence.writing import TraceWriter
from harness.recording.capture import (
    capture_examples,
    capture_value,
    capture_values,
    capture_variables,
    check_variables,
    flat_variables,
    variable_groups,
    without,
)
from harness.recording.closures import Closures
from harness.recording.keras_callback import Reports, make_callback
from harness.recording.noise import Noise
from harness.recording.record_values import ValuePlace, checked_call, value_text
from harness.recording.watch import ByHand, Watch
from harness.recording.witness import Witness
from simulator.agent import current, now

__all__ = ["Recorder"]

_PREFIX = {"gradients": "gradient", "metrics": "metric", "predictions": "predictions"}
"""What a value is called that is given without a name."""


class Recorder:
    """Passed to a program as `record`; writes one trace file per client process.

    Call it outside `strategy.run`, in every client process alike.

    Attributes:
        directory: a folder that survives an interruption of the run; a resumable program saves and restores there.
        closures: set by the harness; what the program has asked of coordinators so far.
    """

    def __init__(
        self,
        strategy: Any,
        header: Header,
        trace: Path,
        directory: Path,
        noise: Noise | None = None,
        watch: Watch | ByHand | None = None,
        witness: Witness | None = None,
        stepped: Callable[[int], None] = lambda index: None,
        *,
        beside: int = 0,
        follows: bool = False,
    ) -> None:
        self.directory = directory
        self.closures: Closures | None = None
        self._unjoined: dict[str, None] = {}
        self._strategy = strategy
        self._writer = TraceWriter(trace, beside)
        self._writer.write(header)
        self._noise = noise
        self._watch = watch
        self._witness = witness
        self._stepped = stepped
        # What it computes is not perturbed again: the next step begins with what the run had.
        self._nudging = None if follows else noise
        self._steps = 0
        self._observed = 0
        self._per_epoch = False
        self._final: Final | None = None
        self._finished = False
        self._variables: dict[str, Any] = {}  # by call, as given last

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
                replicas (the convention of `tf.nn.compute_average_loss`). Like all values it has a dtype of NumPy's, of
                64 bits at most, or bfloat16; of a RaggedTensor the lengths of the rows are compared too.
            gradients: a sequence or mapping of gradients, dense or IndexedSlices; PerReplica ones count as their sum.
            variables: TensorFlow or Keras variables; every replica's copy is captured. Add the optimizer's to have its
                slots and iteration counter judged. What a Keras metric keeps is left out, with a note: it may count
                replicas.
            examples: integer ids of the examples that this client consumed in this step; a PerReplica keeps replicas
                apart. The chief of parameter-server training may give a mapping from task, such as `worker:0`, to the
                ids that this task consumed.
            metrics: a mapping from name to value or Keras metric.
            epoch: the number of the epoch that this step belongs to.

        Raises:
            TypeError: something is not what is accepted there, which the sentence says; nothing is recorded then.
            ValueError: a key of `examples` is no task, or an id does not fit into 64 bits with a sign.
        """
        self._write_step(
            loss=loss,
            gradients=gradients,
            variables=variables,
            examples=examples,
            metrics=metrics,
            epoch=epoch,
        )

    def final(self, *, variables: Any = None, predictions: Any = None, metrics: Any = None) -> None:
        """Report the end of the run, once.

        Args:
            variables: as in `step`.
            predictions: an array, tensor, PerReplica, or a mapping of them, in input order.
            metrics: as in `step`.

        Raises:
            RuntimeError: called a second time.
            TypeError: as of `step`.
        """
        if self._finished:
            raise RuntimeError("record.final was called twice; a run has one end")
        self._write_final(variables=variables, predictions=predictions, metrics=metrics)
        self._finished = True

    def keras_callback(self, model: Any) -> Any:
        """A callback for `fit` of Keras 3 and tf_keras that does `step` after each batch and `final` at the end.

        Recorded are loss and metrics (running means over the epoch), the model's variables and the optimizer's. Under
        ParameterServerStrategy, where Keras allows no batch hooks, each epoch is one step. The program may still call
        `final` itself, for example with predictions; what it gives there is added to what the callback has reported.
        """
        return make_callback(Reports(self._strategy, self._write_step, self._write_final, self._silently), model)

    @property
    def strategy(self) -> Any:
        """The strategy of this run."""
        return self._strategy

    @property
    def counts(self) -> dict[str, int]:
        """`observed`, how many values were reported, and steps seen in which something could be judged; `steps`, how
        many were seen.
        """
        witness = self._witness
        seen = (0, 0) if witness is None else (witness.observed, witness.steps_seen)
        return {"observed": self._observed + seen[0], "steps": seen[1]}

    def witnessing(self) -> contextlib.AbstractContextManager[None]:
        """Around the program: within, what the harness sees by itself is written next to what is reported."""
        if self._witness is None:
            return contextlib.nullcontext()
        return self._witness.active(self._writer.write, self._saw)

    def adopt(self, strategy: Any) -> None:
        """Know the strategy of the run, which an unmodified script builds itself."""
        self._strategy = strategy
        if self._witness is not None:
            self._witness.adopt(strategy)

    def _saw(self, index: int) -> None:
        if self._watch is not None and not self._watch.reports:
            self._watch.after_step(index)
        self._stepped(index)

    def _reports(self, reported: dict[str, Any], *, step: bool) -> None:
        """Tell the witness of a call that was accepted so far, before anything of it is read or perturbed."""
        if self.closures is not None:
            self._unjoined.update(dict.fromkeys(self.closures.open))
        if self._witness is not None:
            given = [observable for observable, value in reported.items() if value is not None]
            self._witness.reported(given if step else (), step=step)

    def recorded_variables(self) -> list[tuple[str, list[Any]]]:
        """The variables that were reported last, each with its name, as one object or as its shards."""
        given = [(variables, ValuePlace(call, "variables")) for call, variables in self._variables.items()]
        return [group for variables, place in given for group in variable_groups(self._strategy, variables, place)]

    def _write_step(
        self,
        *,
        call: str = "record.step",
        epoch: Any = None,
        per_epoch: bool = False,
        means: Sequence[Any] = (),
        logged: str | None = None,
        **reported: Any,
    ) -> None:
        with checked_call(call), self._silently():
            self._reports(reported, step=True)
            reported["variables"] = self._without_metrics(call, reported["variables"])
            captured = self._captured(call, reported, noise=self._nudging)
            number = None if epoch is None else _epoch(epoch, ValuePlace(call, "epoch", "whole numbers of 64 bits"))
        self._steps += 1
        if per_epoch and not self._per_epoch:
            self._per_epoch = True
            self._writer.write(Counters(per_epoch=True))  # now, because a process that is killed never closes
        if self._watch is None:  # of a run that is watched nobody reads the trace, and a large model would be in it
            scheduled = None if self.closures is None else self.closures.count
            step = Step(index=self._steps, at=now(), epoch=number, scheduled=scheduled, logged=logged, **captured)
            self._writer.write(step)
        if self._witness is not None and reported["variables"] is not None:
            with self._silently():
                self._witness.took([*flat_variables(reported["variables"]), *means])
        if (task := current()) is not None:
            task.step(self._steps)
        if self._watch is not None:
            self._watch.after_step(self._steps)

    def _write_final(self, *, call: str = "record.final", **reported: Any) -> None:
        """Write what is reported of the end, together with what has been reported of it before."""
        with checked_call(call), self._silently():
            self._reports(reported, step=False)
            reported["variables"] = self._without_metrics(call, reported["variables"])
            captured = self._captured(call, reported)
        before = self._final or Final(at=0.0)
        metrics = {value.name: value for value in (*(before.metrics or ()), *(captured["metrics"] or ()))}
        self._final = Final(
            at=now(),
            variables=captured["variables"] or before.variables,
            predictions=captured.get("predictions") or before.predictions,
            metrics=tuple(metrics.values()) or None,
        )
        self._writer.write(self._final)

    def _without_metrics(self, call: str, variables: Any) -> Any:
        """The variables but those that a Keras metric keeps, all of which have been looked at."""
        if variables is None:
            return None
        check_variables(variables, ValuePlace(call, "variables"))
        return variables if self._witness is None else without(variables, self._witness.of_metric)

    def _captured(self, call: str, reported: dict[str, Any], noise: Noise | None = None) -> dict[str, Any]:
        """The arrays of everything that one call reports; None for what was not given, or holds nothing."""
        found: dict[str, Any] = {}
        for observable, value in reported.items():
            place = ValuePlace(call, observable)
            if value is None:
                found[observable] = None
            elif observable == "loss":
                found["loss"] = capture_value(self._strategy, "loss", value, place)
            elif observable == "examples":
                found["examples"], found["consumers"] = capture_examples(self._strategy, value, place)
                if self._witness is not None:
                    found["examples"] = tuple(self._witness.own_ids(found["examples"]))
            elif observable != "variables":
                found[observable] = capture_values(self._strategy, value, _PREFIX[observable], place) or None
        # Last, so that noise changes nothing in a call that is refused.
        if (variables := reported.get("variables")) is not None:
            if noise is not None:
                noise.nudge(flat_variables(variables))
            found["variables"] = capture_variables(self._strategy, variables, ValuePlace(call, "variables")) or None
            self._variables[call] = variables
        self._observed += _numbers(found)
        return found

    @contextlib.contextmanager
    def _silently(self) -> Iterator[None]:
        """Where a value is read to be compared, a rerun with noise reads what it is, and nothing is watched."""
        with contextlib.ExitStack() as stack:
            for one in (self._noise, self._watch):
                if one is not None:
                    stack.enter_context(one.silent())
            yield

    def close(self, **counted: Any) -> None:
        """Write what the harness itself has counted, by the names of `Counters`, and close the file."""
        coarsest = None if self._noise is None else self._noise.coarsest
        if self._witness is not None:
            counted |= self._witness.counted
        counters = Counters(per_epoch=self._per_epoch, coarsest=coarsest, unjoined=tuple(self._unjoined), **counted)
        self._writer.write(counters)
        self._writer.close()


def _epoch(epoch: Any, place: ValuePlace) -> int:
    try:
        number = operator.index(epoch)
    except TypeError:
        raise place.refused(value_text(epoch)) from None
    if not -(2**63) <= number < 2**63:
        raise place.refused(f"the number {number}" if number.bit_length() < 200 else "a larger number")
    return number


def _numbers(captured: dict[str, Any]) -> int:
    """How many values hold a number at all."""
    loss, *several = (captured.get(name) for name in ("loss", "gradients", "metrics", "predictions"))
    values = [*(() if loss is None else (loss,)), *(value for found in several for value in found or ())]
    count = sum(any(part.data for part in value.parts) for value in values)
    count += sum(any(copy.data for copy in variable.copies) for variable in captured.get("variables") or ())
    return count + any(captured.get("examples") or ())
