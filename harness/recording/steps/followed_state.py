"""What a step begins with where one replica follows a run: the run's own values, with noise where that is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.evidence.arrays import wide
from harness.recording.noise import Noise
from harness.recording.steps.protocol import Variables
from harness.recording.steps.state import copies_of, held_by, set_to

if TYPE_CHECKING:
    import numpy as np


class FollowedState:
    """Sets variables when a step begins, and takes the noise off them again when it has ended.

    Args:
        noise: as of `Follower`.
        silent: as of `Follower`.
    """

    def __init__(self, noise: Noise | None, silent: Callable[[], Any]) -> None:
        self._noise = noise
        self._silent = silent
        self._moved: list[tuple[Any, list[np.ndarray[Any, Any]]]] = []

    def begin(self, variable: Any, values: list[np.ndarray[Any, Any]]) -> None:
        """Set a variable, with noise to what the step shows as it is computed."""
        if self._noise is not None:
            noisy = list(map(self._noise.of_state, values))
            if any(one is not other for one, other in zip(values, noisy, strict=True)):
                self._moved.append((variable, [wide(b) - wide(a) for a, b in zip(values, noisy, strict=True)]))
            values = noisy
        set_to(variable, values)

    def share(self, variables: Variables) -> None:
        """Give all replicas the mean of what each has for itself, for the next step to begin with."""
        import numpy as np

        with self._silent():
            for _, variable in variables:
                held = held_by(variable, [copy.numpy() for copy in copies_of(variable)])
                if len(held) > 1 and held[0].dtype.kind == "f":
                    set_to(variable, [np.mean(list(map(wide, held)), axis=0).astype(held[0].dtype)])

    def end(self) -> None:
        """Take the noise off that variables began with: what is judged is what the step has done to them."""
        moved, self._moved = self._moved, []
        if not moved:
            return
        with self._silent():
            for variable, by in moved:
                held = held_by(variable, [copy.numpy() for copy in copies_of(variable)])
                every = by * len(held) if len(by) == 1 else by
                set_to(variable, [(wide(a) - b).astype(a.dtype) for a, b in zip(held, every, strict=False)])
