"""A data-parallel training in NumPy with a switch for mistakes: synthetic runs for the tests of explanations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.evidence.trace import Final, RunTrace
from harness.judging.laws.protocol import Case
from harness.judging.tolerance import DerivedTolerance
from tests.harness._traces import client, step, variable

F64 = np.ndarray[Any, np.dtype[np.float64]]
Arrays = dict[str, F64]
_SHAPES = {"kernel": (5, 3), "bias": (3,)}


@dataclass(frozen=True)
class Replicated:
    """Least squares through a tanh, with a penalty on the kernel; `mistake` is what R > 1 replicas get wrong.

    `sizes` are the examples of each global batch; `clip` the norm to which the sum of gradients is clipped, which is
    reported then unless `unclipped`; `parts` whether losses and gradients are reported per replica; `overflow` the
    step at which the last replica's gradient is infinite, and the update skipped. `strike` changes one number: the
    target, the step, the replica, the name, the flat index, and what becomes of it; a gradient in this step, a variable
    after it. With `tokens` an example counts as often as it has tokens.
    """

    replicas: int = 1
    mistake: str = ""
    optimizer: str = "momentum"
    sizes: tuple[int, ...] = (12, 12, 12, 7)
    clip: float = 0.0
    unclipped: bool = False
    parts: bool = True
    gradients: bool = True
    examples: bool = True
    slots: bool = True
    overflow: int = 0
    strike: tuple[str, int, int, str, int, float] | None = None
    noise: int | None = None
    tokens: bool = False

    def run(self) -> RunTrace:
        with np.errstate(invalid="ignore", over="ignore"):
            return self._run()

    def _run(self) -> RunTrace:
        rng = np.random.default_rng(4)
        total = sum(self.sizes)
        x, y = rng.standard_normal((total, 5)), rng.standard_normal((total, 3))
        start = {name: rng.standard_normal(shape) for name, shape in _SHAPES.items()}
        copies = [self._noisy({name: array.copy() for name, array in start.items()}, 0) for _ in range(self.replicas)]
        slots = [{name: np.zeros((2, *array.shape)) for name, array in start.items()} for _ in range(self.replicas)]
        ends = np.cumsum((0, *self.sizes))
        steps = []
        for index in range(1, len(self.sizes) + 1):
            shards = np.array_split(np.arange(ends[index - 1], ends[index]), self.replicas)
            if self.mistake == "whole":  # each replica is given the whole batch
                shards = [np.concatenate(shards)] * self.replicas
            many = sum(int(_tokens(x[ids]).sum()) if self.tokens else len(ids) for ids in shards)
            many //= self.replicas if self.mistake == "whole" else 1
            found = [self._local(copies[k], x[ids], y[ids], many, index, k) for k, ids in enumerate(shards)]
            for k, (_, gradients) in enumerate(found):
                self._struck("gradient", index, k, gradients)
            applied = self._applied([gradients for _, gradients in found])
            finite = [all(np.isfinite(array).all() for array in gradients.values()) for _, gradients in found]
            for k in range(self.replicas):
                if self.overflow and not self._goes(finite, k):
                    continue
                self._update(copies[k], slots[k], applied[k], index)
                copies[k] = self._noisy(copies[k], index)
            steps.append(self._step(index, found, copies, slots, shards))
            for k, copy in enumerate(copies):
                self._struck("variable", index, k, copy)
        final = Final(99.0, tuple(variable(name, [c[name] for c in copies], "mirrored") for name in start))
        trace = client(*steps, task="local:0", replicas=self.replicas, final=final)
        return RunTrace((trace,))

    def _struck(self, target: str, index: int, replica: int, arrays: Arrays) -> None:
        if self.strike is not None and self.strike[:3] == (target, index, replica):
            _, _, _, name, element, value = self.strike
            arrays[name].reshape(-1)[element] = value

    def _goes(self, finite: list[bool], replica: int) -> bool:
        return (
            finite[replica]
            if self.mistake == "decide_each"
            else finite[0]
            if self.mistake == "decide_first"
            else all(finite)
        )

    def _noisy(self, arrays: Arrays, salt: int) -> Arrays:
        if self.noise is None:
            return arrays
        rng = np.random.default_rng([self.noise, salt])
        return {name: array * (1 + 2.0**-23 * rng.uniform(-1, 1, array.shape)) for name, array in arrays.items()}

    def _local(self, w: Arrays, x: F64, y: F64, size: int, index: int, replica: int) -> tuple[float, Arrays]:
        counts = _tokens(x) if self.tokens else np.ones((len(x), 1))
        many, mean = self.replicas, max(1, int(counts.sum()))
        if self.mistake == "same_mask":
            x = x * (np.random.default_rng([9, index]).random((1, 5)) < 0.5)
        hidden = np.tanh(x @ w["kernel"] + w["bias"])
        divisor = {"mean_then_sum": mean, "hidden": mean, "mean_of_means": mean * many, "sum_then_mean": size * many}
        over = divisor.get(self.mistake, size)
        share = {"mean_then_sum": 1.0, "whole": 1.0, "hidden": 1.0, "regularizer": 1.0, "sum_then_mean": many**-2.0}
        weight = 0.05 * share.get(self.mistake, 1 / many)
        error = counts * 2 * (hidden - y) * (1 - hidden**2) / over
        loss = (counts * (hidden - y) ** 2).sum() / over + weight * (w["kernel"] ** 2).sum()
        gradients = {"kernel": x.T @ error + 2 * weight * w["kernel"], "bias": error.sum(axis=0)}
        if self.overflow == index and replica == many - 1:
            gradients["kernel"] = gradients["kernel"] + np.inf
        if self.clip and self.mistake.startswith("clip"):
            gradients = self._clipped(gradients) if self.mistake == "clip_first" else gradients
        return loss, gradients

    def _clipped(self, gradients: Arrays) -> Arrays:
        norm = np.sqrt(sum((array**2).sum() for array in gradients.values()))
        return {name: array * min(1.0, self.clip / norm) for name, array in gradients.items()}

    def _applied(self, gradients: list[Arrays]) -> list[Arrays]:
        if self.mistake == "clip_unseen":
            gradients = [self._clipped(each) for each in gradients]
        wrong = self._unreduced(gradients)
        if self.mistake.startswith("bias_"):
            kernel = np.sum([each["kernel"] for each in gradients], axis=0)
            return [{"kernel": kernel, "bias": each["bias"]} for each in wrong]
        if wrong:
            return wrong
        whole = {name: np.sum([each[name] for each in gradients], axis=0) for name in gradients[0]}
        factor = {"divisor": 4.0, "twice": 2.0}.get(self.mistake, 1.0)
        if self.clip and not self.mistake.startswith("clip"):
            whole = self._clipped(whole)
        return [{name: factor * array for name, array in whole.items()}] * self.replicas

    def _unreduced(self, gradients: list[Arrays]) -> list[Arrays]:
        """What the copies apply of these where nobody sums them, or nothing."""
        kind = self.mistake.removeprefix("bias_")
        if kind == "not_reduced":
            return gradients
        return [gradients[int(kind[-1])]] * self.replicas if kind.startswith("only_") else []

    def _update(self, w: Arrays, slots: Arrays, gradients: Arrays, index: int) -> None:
        for name, gradient in gradients.items():
            m, v = slots[name]
            if self.optimizer == "adam":
                m += 0.1 * (gradient - m)
                v += 0.001 * (gradient**2 - v)
                w[name] -= 0.05 * np.sqrt(1 - 0.999**index) / (1 - 0.9**index) * m / (np.sqrt(v) + 1e-7)
            else:
                m *= 0.9 if self.optimizer == "momentum" else 0.0
                m += gradient
                w[name] -= 0.05 * m

    def _step(self, index: int, found: list[Any], copies: list[Arrays], slots: list[Arrays], shards: list[Any]) -> Any:
        def cast(array: Any) -> Any:
            return np.asarray(array, np.float32)

        losses = [cast(loss) for loss, _ in found]
        variables = {name: [cast(copy[name]) for copy in copies] for name in _SHAPES}
        if self.slots:
            variables |= {f"{name}/momentum": [cast(slot[name][0]) for slot in slots] for name in _SHAPES}
        gradients: dict[str, Any] = {name: [cast(each[name]) for _, each in found] for name in _SHAPES}
        if self.clip and not self.unclipped and not self.mistake.startswith("clip"):
            gradients = {name: cast(array) for name, array in self._applied([each for _, each in found])[0].items()}
        if not self.parts:
            gradients = {
                name: cast(np.sum(parts, axis=0)) if isinstance(parts, list) else parts
                for name, parts in gradients.items()
            }
        loss = (
            np.mean(losses) if self.mistake == "hidden" else losses if self.parts else np.sum(losses, dtype=np.float32)
        )
        return step(
            index,
            loss=loss,
            gradients=gradients if self.gradients else None,
            variables=variables,
            examples=tuple(tuple(ids.tolist()) for ids in shards) if self.examples else None,
        )


def _tokens(x: F64) -> F64:
    """How many tokens each example has, 1 to 5."""
    return np.asarray(np.minimum(np.floor(1 + 2 * np.abs(x[:, :1])), 5))


def case(replicas: int, mistake: str = "", **options: Any) -> Case:
    """A run against its reference, with a bound from three noisy reruns."""
    right = Replicated(**options)
    truth = right.run()
    noisy = [replace(right, noise=seed).run() for seed in (1, 2, 3)]
    return Case(replace(right, replicas=replicas, mistake=mistake).run(), truth, DerivedTolerance(truth, noisy))
