"""The tier that allows for nothing."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judging.tolerance.protocol import Bound
from harness.judging.tolerance.whole_tensor import WholeTensor


@dataclass(frozen=True)
class ExactTolerance:
    """Bit for bit up to the sign of zero, for programs whose intermediate values are all exactly representable."""

    @property
    def name(self) -> str:
        """The tier."""
        return "exact"

    def bound(self, observable: str, name: str, step: int | None) -> Bound:
        """Zero."""
        return _zero()

    def sizes(self, observable: str, name: str, step: int | None) -> Bound:
        """Zero: against a bound of zero any size is as good."""
        return _zero()

    def whole(self, observable: str, name: str, step: int | None, observed: Bound, before: Bound) -> WholeTensor | None:
        """None: each element is compared bit for bit."""
        return None

    def rounds(self, name: str, step: int | None) -> bool:
        """There are no reruns."""
        return True

    def describe(self) -> str:
        """One sentence for a report."""
        return "exact tier: every value must equal the reference's (bound 0)"


def _zero() -> Bound:
    import numpy as np

    return np.zeros(())
