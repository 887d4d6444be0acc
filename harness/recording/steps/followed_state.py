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
        are_single: as of `Steps`.
    """

    def __init__(self, noise: Noise | None, silent: Callable[[], Any], *, are_single: bool = False) -> None:
        self._are_single = are_single
        self._noise = noise
        self._silent = silent
        self._moved: list[tuple[Any, list[np.ndarray[Any, Any]]]] = []
        # What a whole number was here, and what it was set to.
        self._counters: list[tuple[Any, int, int]] = []

    def begin(self, variable: Any, values: list[np.ndarray[Any, Any]]) -> None:
        """Set a variable, with noise to what the step shows as it is computed."""
        if self._noise is not None:
            noisy = list(map(self._noise.of_state, values))
            if any(one is not other for one, other in zip(values, noisy, strict=True)):
                self._moved.append((variable, [wide(b) - wide(a) for a, b in zip(values, noisy, strict=True)]))
            values = noisy
        own = copies_of(variable)[0]
        counts = self._are_single and not values[0].shape and values[0].dtype.kind in "iu"
        if counts and own.is_initialized():
            self._counters.append((variable, int(own.numpy()), int(values[0])))
        set_to(variable, values)

    def count_on(self) -> None:
        """Have whole numbers go on from what they were here: a program may do by them what comes next."""
        import numpy as np

        counters, self._counters = self._counters, []
        with self._silent():
            for variable, own, begun in counters:
                now = copies_of(variable)[0].numpy()
                set_to(variable, [np.array(int(now) - begun + own, now.dtype)])

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
