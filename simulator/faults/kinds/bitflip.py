"""Silent data corruption: one bit of one number is another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from simulator.faults.kinds._corruption import Corruption


class Bitflip(Corruption, tag="bitflip", kw_only=True, frozen=True):
    """One bit is turned over.

    Attributes:
        bit: 0 is the lowest; of a float32, 0 to 22 are the mantissa, 23 to 30 the exponent, 31 the sign. Drawn if not
            given; modulo the width of the type.
    """

    bit: int | str | None = None

    drawn: ClassVar[Mapping[str, str]] = {**Corruption.drawn, "bit": "0..31"}

    def change(self) -> dict[str, Any]:
        """The bit."""
        return {"bit": int(self.bit or 0)}


KIND = Bitflip
