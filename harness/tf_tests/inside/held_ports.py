"""Ports that nobody else can take before a test's server listens on them."""

from __future__ import annotations

import os
from typing import Any

_held: list[Any] = []


def install() -> None:
    """Have `pick_unused_port` hold what it picks until the process ends."""
    from tensorflow.python.distribute import multi_worker_test_base
    from tensorflow.python.framework import test_util

    # TensorFlow's servers then ask for SO_REUSEPORT, as they have to where somebody holds their port.
    os.environ["TF_GRPC_REUSE_PORT"] = "1"
    test_util.pick_unused_port = pick
    multi_worker_test_base.pick_unused_port = pick


def pick() -> int:
    """A port that is held."""
    from simulator.machines.local.ports import hold_ports

    holding = hold_ports(["test"])
    number = holding.__enter__()["test"]
    _held.append(holding)
    return number
