"""What the harness raises on purpose, besides the simulator's errors."""

from __future__ import annotations

from simulator import LockstepError, UsageError

__all__ = ["MissingHardware", "NothingObserved", "SharedState"]


class NothingObserved(UsageError):
    """Raised when a program reported nothing: a run without observations proves nothing, so it does not pass."""

    def __init__(self, program: str) -> None:
        super().__init__(
            f"{program} observed nothing: it never gave a value to record.step or record.final. "
            "Report at least a loss or variables, for example record.step(loss=loss, variables=model.variables), "
            "or pass record.keras_callback(model) to fit"
        )


class SharedState(UsageError):
    """Raised when one run of a verification has read a file that another one has written: it may not have trained."""

    def __init__(self, program: str, path: str, *, reader: str, writer: str) -> None:
        self.path = path
        super().__init__(
            f"{program}: {reader} has read {path}, which {writer} had written, so the two are not independent and "
            "nothing is shown. Keep what a run saves in record.directory, which each run has for itself; what "
            "all runs are to read, such as prepared data, has to be there before the verification and stay as it is"
        )


class MissingHardware(LockstepError):
    """Raised when a strategy needs hardware that this machine lacks."""
