"""The environment of a process that has simulated GPUs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from simulator.errors import UsageError
from simulator.hardware.simulated.building import library

COUNT_VARIABLE = "LOCKSTEP_SIMULATED_GPUS"
MEMORY_VARIABLE = "LOCKSTEP_SIMULATED_GPU_MEMORY_MB"
LIBRARY_VARIABLE = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"
# As `platform.cc` has them: enough for two workers with two each.
_COUNT, _COUNT_MAX = 4, 64
_MEMORY_MB = 4096


def variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What gives a process simulated GPUs, as many and as large as the environment says; built if need be.

    Args:
        environ: where the count and the memory are looked up, by default this process's environment.

    Raises:
        UsageError: a count or an amount of memory that is none.
        NotBuilt: the simulated GPU cannot be built here.
    """
    given = os.environ if environ is None else environ
    count = _whole(given, COUNT_VARIABLE, _COUNT, _COUNT_MAX)
    memory_mb = _whole(given, MEMORY_VARIABLE, _MEMORY_MB, 2**20)
    return {COUNT_VARIABLE: str(count), MEMORY_VARIABLE: str(memory_mb), LIBRARY_VARIABLE: str(library())}


def _whole(given: Mapping[str, str], name: str, otherwise: int, most: int) -> int:
    text = given.get(name) or str(otherwise)
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise UsageError(f"{name}={text!r} is not a whole number from 1 to {most}")
    return int(text)
