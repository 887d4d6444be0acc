"""What a tolerance is: it knows of each element of each value how far that may be from the reference's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from harness.judging.tolerance.whole_tensor import WholeTensor

    Bound = np.ndarray[Any, np.dtype[np.floating[Any]]]
else:
    Bound = Any


class Tolerance(Protocol):
    """The largest permitted difference of each element of one observable's value from the reference's."""

    @property
    def name(self) -> str:
        """The tier: `exact` or `derived`."""

    def bound(self, observable: str, name: str, step: int | None) -> Bound:
        """The bounds at a step of the reference (from 1), or at the end when `step` is None.

        Returns:
            One for each element, in the shape of the reference's value; a scalar 0 for what it never recorded there.
        """

    def sizes(self, observable: str, name: str, step: int | None) -> Bound:
        """What each element's bound is held against to say how small an error would have been found.

        Returns:
            The magnitude of each element; of one that is zero that of its group, which is zero if all of them are.
        """

    def whole(self, observable: str, name: str, step: int | None, observed: Bound, before: Bound) -> WholeTensor | None:
        """What a value has become, held as a whole against what the reference's has.

        Args:
            observable: of the value.
            name: of it.
            step: as of `bound`.
            observed: the run's value, in the shape of the reference's, float64.
            before: what both began with; zero of what is no state.

        Returns:
            None where nothing has become of it in the reference, or it is compared exactly.
        """

    def rounds(self, name: str, step: int | None) -> bool:
        """Whether rounding may be why reruns change what a step adds to a variable; False if something else is."""

    def describe(self) -> str:
        """One sentence for a report."""
