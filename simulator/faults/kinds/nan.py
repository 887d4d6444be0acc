"""A number that becomes NaN, as from an overflow or a broken chip."""

from __future__ import annotations

from typing import Any

from simulator.faults.kinds._corruption import Corruption


class Nan(Corruption, tag="nan", kw_only=True, frozen=True):
    """One number becomes NaN."""

    def change(self) -> dict[str, Any]:
        """No bit in particular."""
        return {"bit": -1}


KIND = Nan
