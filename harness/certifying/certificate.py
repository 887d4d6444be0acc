"""What a certificate says, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from harness.report.templates import rendered

REHEARSAL = "REHEARSAL on simulated GPUs: this certifies nothing"


class Trial(msgspec.Struct, frozen=True):
    """One training under one strategy, twice.

    Attributes:
        strategy: its name.
        seconds_per_step: median over the steps of both runs but the first two, which are traced; None if it failed.
        bit_equal: whether both runs recorded the same bits, with op determinism on.
        difference: where they differ first, or why the training failed; empty where they do not.
        peak_bytes: the most that was in use on each GPU, by its name and task; nothing of parameter servers' workers.
        training: what it is about: plain `variables`, a model of `Keras 3` or `tf_keras`, or a `coordinator`.
        steps: how many steps the median is of.
    """

    strategy: str
    seconds_per_step: float | None
    bit_equal: bool
    difference: str = ""
    peak_bytes: dict[str, int] = {}
    training: str = "variables"
    steps: int = 0

    @property
    def name(self) -> str:
        """The strategy, and what the training is about where that is no matter of course."""
        return self.strategy if self.training == "variables" else f"{self.strategy} ({self.training})"


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What was found on one machine.

    Attributes:
        rehearsal: whether it was computed on simulated GPUs, and so certifies nothing.
        machine: what the machine is: driver, versions of CUDA, cuDNN, TensorFlow, Keras, Python.
        gpus: name and bytes of memory of each, as TensorFlow sees them.
        scenarios: how many have which outcome.
        on_device: how many of them were computed on which device.
        worst: the scenarios nearest to their bounds: row, strategy and ratio, the worst first.
        failed: those that failed, each with its reason.
        trials: the training under each strategy.
        reasons: why the machine is not certified; empty where it is.
        measured: how the seconds of a step were taken.
        notes: what else is to be known, such as what was not tried.
    """

    rehearsal: bool
    machine: dict[str, str]
    gpus: tuple[tuple[str, int], ...]
    scenarios: dict[str, int]
    on_device: dict[str, int]
    worst: tuple[tuple[str, str, float], ...]
    failed: tuple[str, ...]
    trials: tuple[Trial, ...]
    reasons: tuple[str, ...] = ()
    measured: str = ""
    notes: tuple[str, ...] = ()

    @property
    def certified(self) -> bool:
        """Whether everything holds, on devices that are real."""
        return not self.rehearsal and not self.reasons

    @property
    def headline(self) -> str:
        """One line."""
        if self.rehearsal:
            return f"{REHEARSAL}; {'found wanting' if self.reasons else 'nothing found wanting'}"
        return "certified" if self.certified else "NOT certified"

    def to_json(self) -> dict[str, Any]:
        """Plain data, with the headline."""
        return {"headline": self.headline, "certified": self.certified, **msgspec.to_builtins(self)}

    def lines(self) -> Iterator[str]:
        """The certificate as text."""
        yield self.headline
        yield from (f"  not in order: {reason}" for reason in self.reasons)
        yield "  machine: " + ", ".join(f"{name} {text}" for name, text in self.machine.items())
        yield from (f"  GPU {index}: {name}, {size // 2**20} MB" for index, (name, size) in enumerate(self.gpus))
        yield "  scenarios: " + ", ".join(f"{count} {outcome}" for outcome, count in self.scenarios.items())
        yield "  computed on: " + "; ".join(f"{count} on {device}" for device, count in self.on_device.items())
        yield from (f"  near its bound: {row} under {name}, {ratio:.2g} of it" for row, name, ratio in self.worst)
        yield from (f"  FAIL: {text}" for text in self.failed)
        yield from (f"  {_told(trial)}" for trial in self.trials)
        if self.measured:
            yield f"  measured: {self.measured}"
        yield from (f"  note: {note}" for note in self.notes)
        if self.rehearsal:
            yield REHEARSAL


def _told(trial: Trial) -> str:
    if trial.seconds_per_step is None:
        return f"{trial.name}: failed: {trial.difference}"
    same = "bit-equal twice" if trial.bit_equal else f"NOT the same twice: {trial.difference}"
    peak = f", {max(trial.peak_bytes.values()) / 2**20:.1f} MB at most" if trial.peak_bytes else ""
    return f"{trial.name}: {1000 * trial.seconds_per_step:.2f} ms a step, {same}{peak}"


def certificate_page(certificate: Certificate, again: str = "") -> str:
    """Render the page."""
    slowest = max((trial.seconds_per_step or 0.0 for trial in certificate.trials), default=0.0)
    return rendered("certificate.html", again=again, certificate=certificate, slowest=slowest or 1.0)
