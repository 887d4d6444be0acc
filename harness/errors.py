"""What the harness raises on purpose, besides the simulator's errors."""

from __future__ import annotations

from simulator import LockstepError, UsageError

__all__ = ["MissingHardware", "NothingObserved"]


class NothingObserved(UsageError):
    """Raised when a program reported nothing: a run without observations proves nothing, so it does not pass."""

    def __init__(self, program: str) -> None:
        super().__init__(
            f"{program} observed nothing: it never gave a value to record.step or record.final. "
            "Report at least a loss or variables, for example record.step(loss=loss, variables=model.variables), "
            "or pass record.keras_callback(model) to fit"
        )


class MissingHardware(LockstepError):
    """Raised when a strategy needs hardware that this machine lacks."""
