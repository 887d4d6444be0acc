"""What was asked of a verification besides the program, the strategy and what disturbs the run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

from harness.running.interpreter import Interpreter
from harness.running.reference import Venue
from harness.subject.strategies import StrategyCase
from simulator import UsageError
from simulator.arguments import check_kind

Tier = Literal["derived", "exact"]


@dataclasses.dataclass(frozen=True)
class VerifyRequest:
    """What was asked for besides the program, the strategy and what disturbs the run; as of `verify`."""

    tier: Tier
    forced: bool
    explain: bool | None
    prove: bool | None
    seed: int
    timeout: float
    stream: bool
    keep: bool
    reference: str = "cpu"
    python: Interpreter | None = None
    tf32: bool = False

    def venue(self, case: StrategyCase, *, beside: bool = False) -> Venue:
        """Where the reference of a run under a strategy is made.

        Args:
            case: the strategy.
            beside: whether that on a CPU in this environment is meant, where another one was asked for.
        """
        where = Venue(self.seed, self.timeout, noisy=self.derived, strategy=case.family.reference)
        if self.reference == "device" and not beside:
            return dataclasses.replace(where, hardware=case.device_kind)
        if beside:  # the run may have computed on a device
            return dataclasses.replace(where, kernels=case.computes_apart or self.reference == "device")
        kernels = case.computes_apart or self.python is not None
        return dataclasses.replace(where, kernels=kernels, tf32=case.tf32 or self.tf32, python=self.python)

    def on(self, case: StrategyCase, python: str | Path | Interpreter | None) -> VerifyRequest:
        """The same, after a check that the reference can run where it was asked for.

        Args:
            case: the strategy.
            python: of the environment that makes the reference, None for this one.

        Raises:
            UsageError: there is no such place, or the strategy computes on a CPU.
        """
        if self.reference not in ("cpu", "device"):
            raise UsageError(f"reference={self.reference!r} is unknown; accepted are cpu, device")
        if self.reference == "device" and case.device_kind == "cpu":
            raise UsageError(f"{case.name} computes on a CPU, as its reference does; give hardware='gpu' as well")
        return self if python is None else dataclasses.replace(self, python=Interpreter.of(python))

    @property
    def derived(self) -> bool:
        """Whether rounding is allowed for."""
        return self.tier == "derived"

    @property
    def of_reference(self) -> dict[str, Any]:
        """Of runs in this environment."""
        return {"seed": self.seed, "timeout": self.timeout}

    @property
    def of_run(self) -> dict[str, Any]:
        """Of the run to be judged."""
        return {**self.of_reference, "stream": self.stream, "keep": self.keep}

    @property
    def of_part(self) -> dict[str, Any]:
        """Of a run that is killed and started again."""
        return {**self.of_reference, "stream": self.stream}

    def check(self) -> None:
        """Fail before anything starts if these make no sense together.

        Raises:
            UsageError: a seed is no number, there is no such tier, or a reference of another environment is to be had
                as only one of this environment can.
        """
        check_kind("seed", self.seed, int, "20")
        if self.tier not in ("derived", "exact"):
            raise UsageError(f"tier {self.tier!r} is unknown; accepted are derived, exact")
        if self.python is None:
            return
        for given, why in (
            ("explain=True" if self.explain else None, "compares operations of the reference with those of the run"),
            ("reference='device'" if self.reference == "device" else None, "runs it on the strategy's device"),
        ):
            if given is not None:
                raise UsageError(
                    f"{given} {why}, which needs the same environment for both; leave it out, or reference_python"
                )
