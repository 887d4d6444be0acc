"""How a cluster runs its tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from simulator.errors import UsageError
from simulator.network import NetworkOptions
from simulator.run.restarts import RestartPolicy
from simulator.units import DURATION_SECONDS_MAX


@dataclass(frozen=True)
class Options:
    """How a cluster runs its tasks; see `Cluster` for the meaning of each."""

    timeout: float
    preload: tuple[str, ...]
    env: Mapping[str, str]
    stream: bool
    tf_log: bool = True
    start_timeout: float = 60.0
    peer_grace: float = 2.0
    stop_grace: float = 1.0
    evaluator_grace: float = 5.0
    restarts: RestartPolicy = field(default_factory=RestartPolicy)
    network: NetworkOptions = field(default_factory=NetworkOptions)
    seed: int = 0


def check_timeout(timeout: float) -> float:
    """Return `timeout` if it is a positive number of seconds.

    Raises:
        UsageError: it is not.
    """
    number: object = timeout
    if not isinstance(number, (int, float)) or not number > 0:
        raise UsageError(f"timeout={timeout!r} is not a positive number of seconds")
    if DURATION_SECONDS_MAX < timeout < math.inf:
        raise UsageError(f"timeout={timeout:g} is longer than any run; give {DURATION_SECONDS_MAX} s or less")
    return timeout
