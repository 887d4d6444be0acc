"""Tests that are for TPUs only and say so by failing: TensorFlow's sentence that there is none is why they skip."""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["reason"]

# Of `tpu_util`, `tpu_strategy_util` and `TPUClusterResolver`, which begin a test that needs no mock of a TPU; and where
# something is packed for a mesh of TPUs.
_SAID = (
    "no valid TPUs found",
    "TPUs not found in the cluster",
    "Please provide a TPU Name to connect to",
    "/device:TPU:0 unknown device",
)


def reason(call: pytest.CallInfo[None]) -> str | None:
    """Why a test that has failed so is to be skipped; None if it has failed otherwise, or not at all."""
    if call.excinfo is None:
        return None
    said = next((each for each in _SAID if each in str(call.excinfo.value)), None)
    # After the first such test TensorFlow is initialized, which the others of its process are told instead.
    if said is None and any(map(_asks_dtensor, call.excinfo.traceback)):
        said = "DTensor is asked for TPUs"
    return None if said is None else f"requires a TPU, and nothing is run on one here: {said}"


def _asks_dtensor(entry: Any) -> bool:
    """Whether this is where TensorFlow initializes DTensor for TPUs."""
    return entry.name == "initialize_accelerator_system" and str(entry.locals.get("device_type")).upper() == "TPU"
