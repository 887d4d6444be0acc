"""What it costs to have tasks on nodes of a Ray cluster, next to having them here; all nodes are this machine.

Only where Ray is installed: `pip install 'tf-lockstep[ray]'`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from benchmarks import over_machines
from benchmarks.measure import Figure, main

_TWO = "ray:2"
_KIND = "Ray"
# The least that Ray takes for its store of objects, which nobody fills here.
_STORE_BYTES = 80 * 10**6


@contextlib.contextmanager
def _nodes() -> Iterator[None]:
    """A cluster of a head, which gets no work, and two nodes; it is the one of `RAY_ADDRESS`."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray import cluster_utils

    cluster = cluster_utils.Cluster()
    before = os.environ.get("RAY_ADDRESS")
    try:
        for cpus in (0, 1, 1):
            cluster.add_node(num_cpus=cpus, object_store_memory=_STORE_BYTES, include_dashboard=False)
        os.environ["RAY_ADDRESS"] = cluster.address
        yield
    finally:
        del os.environ["RAY_ADDRESS"]
        if before is not None:
            os.environ["RAY_ADDRESS"] = before
        cluster.shutdown()


def _there(measure: Callable[..., Figure], *arguments: Any) -> Callable[[], Figure]:
    @wraps(measure)
    def measured() -> Figure:
        with _nodes():
            return measure(_TWO, *arguments, _KIND)

    return measured


MEASUREMENTS = (
    _there(over_machines.all_reduce, 0.4, "excess"),
    _there(over_machines.step_is_heard, 2.0),
    _there(over_machines.clocks),
    _there(over_machines.killed, "task"),
    _there(over_machines.killed, "site"),
) * (importlib.util.find_spec("ray") is not None)

if __name__ == "__main__":
    if not MEASUREMENTS:
        sys.exit("Ray is not installed here: pip install 'tf-lockstep[ray]'")
    main(MEASUREMENTS, __doc__ or "")
