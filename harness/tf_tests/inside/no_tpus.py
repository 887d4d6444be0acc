"""Tests that are for TPUs only and say so by failing: TensorFlow's sentence that there is none is why they skip."""

from __future__ import annotations

import pytest

__all__ = ["reason"]

# Of `tpu_util`, `tpu_strategy_util` and `TPUClusterResolver`, which begin a test that needs no mock of a TPU.
_SAID = ("no valid TPUs found", "TPUs not found in the cluster", "Please provide a TPU Name to connect to")


def reason(call: pytest.CallInfo[None]) -> str | None:
    """Why a test that has failed so is to be skipped; None if it has failed otherwise, or not at all."""
    if call.excinfo is None:
        return None
    said = next((each for each in _SAID if each in str(call.excinfo.value)), None)
    return None if said is None else f"requires a TPU, and nothing is run on one here: {said}"
