"""How small an error a comparison would have found: the bound of each element as a share of the element itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import numpy as np

    from harness.judging.tolerance import Bound


JUDGED_MAX = 0.01
"""Where a bound is more than this share of an element's size, the element counts as not judged."""

JUDGED_PART = 0.6
"""What a step adds to a variable is judged if an error as large as this part of it would have been found.

What counts every replica adds as much again, or more. Single numbers in bfloat16, the least that is seen, come to 0.53.
"""


FINER = (
    "Have the layers that they belong to compute in float32, such as a last one with dtype='float32', and keep "
    "variables in float32; or verify with a larger rate; or verify a script's training as a function, whose proof may "
    "speak for them"
)
"""What to do about variables that are judged too coarsely."""


class Element(msgspec.Struct, frozen=True):
    """An element of a value at a step, and the smallest relative error that would have been found there."""

    error: float
    step: int | None
    name: str
    index: tuple[int, ...] = ()

    def __str__(self) -> str:
        """`'w'[0, 1] at step 3`."""
        where = f"{self.name!r}{list(self.index) if self.index else ''}"
        return f"{where} at the end" if self.step is None else f"{where} at step {self.step}"


class TensorResolution(msgspec.Struct, frozen=True):
    """Of tensors as wholes, each at each step.

    Attributes:
        tensors: how many were compared.
        factor: where only the largest factor would have been found, of those within `JUDGED_PART`.
        rest: where only the largest part that no factor explains would have been found, likewise.
    """

    tensors: int = 0
    factor: Element | None = None
    rest: Element | None = None

    def __str__(self) -> str:
        """`a factor off by 0.003 ('w' at step 4), a rest of 0.06 ('w' at step 2)`."""
        factor = None if self.factor is None else f"a factor off by {self.factor.error:.2g} ({self.factor})"
        rest = None if self.rest is None else f"a rest of {self.rest.error:.2g} ({self.rest})"
        return ", ".join(filter(None, (factor, rest)))


class Resolution(msgspec.Struct, frozen=True, rename={"unjudged": "not_judged"}, omit_defaults=False):
    """Of one observable, over all its values and steps.

    Attributes:
        elements: how many were compared within a bound, each at each step; what is compared exactly does not count.
        unjudged: those whose bound is more than `JUDGED_MAX` of their size.
        tightest: where the smallest error would have been found, None without elements.
        loosest: of those that were judged, where only the largest would have been; None if none was judged.
        wholes: the same of tensors as wholes; None if none was compared so.
    """

    elements: int = 0
    unjudged: int = 0
    tightest: Element | None = None
    loosest: Element | None = None
    wholes: TensorResolution | None = None

    @property
    def share_unjudged(self) -> float:
        """The share of the elements that were not judged."""
        return self.unjudged / self.elements if self.elements else 0.0

    def to_json(self) -> dict[str, Any]:
        """As in a verdict's JSON."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        if self.wholes is None:
            del found["wholes"]
        return found

    def __str__(self) -> str:
        """`2e-06 to 3e-05 ('b'[1] at step 4); 2 % not judged`."""
        return "; ".join(self._said())

    def _said(self) -> Iterator[str]:
        if self.loosest is not None and self.tightest is not None:
            low, high = f"{self.tightest.error:.1g}", f"{self.loosest.error:.1g}"
            yield low if low == high else f"{low} to {high} ({self.loosest})"
        if self.unjudged:
            yield f"{_percent(self.share_unjudged)} not judged"
        if self.wholes is not None and (said := str(self.wholes)):
            yield f"as wholes {said}"


def _percent(share: float) -> str:
    return "all" if share == 1 else f"{min(max(100 * share, 0.1), 99.9):.3g} %"


@dataclass
class Resolving:
    """Adds up the resolution of an observable, value by value; `result` is None until there is one."""

    result: Resolution | None = None

    def add(self, step: int | None, name: str, bound: Bound, size: Bound, known: np.ndarray[Any, Any]) -> None:
        """Take in one value: the bounds and sizes of its elements, and which of them were compared."""
        import numpy as np

        elements = int(np.count_nonzero(known))
        if not elements:
            return
        with np.errstate(over="ignore"):
            share = np.divide(bound, size, out=np.where(bound > 0, np.inf, 0.0), where=size > 0)
        share = np.broadcast_to(share, known.shape)
        fine = known & (share <= JUDGED_MAX)
        new = Resolution(
            elements,
            elements - int(np.count_nonzero(fine)),
            _at(step, name, np.where(known, share, np.inf), np.argmin),
            _at(step, name, np.where(fine, share, -np.inf), np.argmax),
        )
        self.result = new if self.result is None else joined([self.result, new])

    def add_whole(self, step: int | None, name: str, factor: float, rest: float) -> None:
        """Take in the bounds of one tensor as a whole."""
        of = [Element(bound, step, name) if bound <= JUDGED_PART else None for bound in (factor, rest)]
        new = Resolution(wholes=TensorResolution(1, *of))
        self.result = new if self.result is None else joined([self.result, new])


def _at(step: int | None, name: str, share: np.ndarray[Any, Any], which: Any) -> Element | None:
    """The element with the least or the largest share; None if there is none, or no share can be told."""
    import numpy as np

    flat = int(which(share))
    if not np.isfinite(share.flat[flat]):
        return None
    index = tuple(int(i) for i in np.unravel_index(flat, share.shape))
    return Element(float(share.flat[flat]), step, name, index)


def described(resolution: Mapping[str, Resolution]) -> str:
    """`loss 2e-06; variables 1e-06 to 3e-05 ('b'[1] at step 4)`, or `one bit` where everything was compared exactly."""
    exact = all(found.loosest is not None and found.loosest.error == 0 for found in resolution.values())
    return "one bit" if exact else "; ".join(f"{name} {found}" for name, found in resolution.items())


def joined(found: Iterable[Resolution]) -> Resolution:
    """That of several together."""
    every = list(found)
    tight = [each.tightest for each in every if each.tightest is not None]
    loose = [each.loosest for each in every if each.loosest is not None]
    return Resolution(
        sum(each.elements for each in every),
        sum(each.unjudged for each in every),
        min(tight, key=lambda place: place.error, default=None),
        max(loose, key=lambda place: place.error, default=None),
        _joined_wholes([each.wholes for each in every if each.wholes is not None]),
    )


def _joined_wholes(found: Sequence[TensorResolution]) -> TensorResolution | None:
    def loosest(elements: Iterable[Element | None]) -> Element | None:
        return max(filter(None, elements), key=lambda place: place.error, default=None)

    if not found:
        return None
    tensors = sum(each.tensors for each in found)
    return TensorResolution(tensors, loosest(each.factor for each in found), loosest(each.rest for each in found))
