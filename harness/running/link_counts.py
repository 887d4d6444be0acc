"""A run whose links are counted: when every client has built its strategy, and at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.evidence.links import BUILT, LinkBytes, Links
from harness.subject.strategies import StrategyCase
from simulator import Cluster, DeadlineExceeded, LinkCounters, Run, RunFailed, RunResult, Topology

_Counters = Mapping[tuple[str, str], LinkCounters]


def is_linked(case: StrategyCase) -> bool:
    """Whether there are several tasks with an address, whose connections have to go through the relay."""
    return len(case.topology.networked) > 1


def run_linked(cluster: Cluster, directory: Path, *work: Any, counted: bool = True) -> RunResult:
    """`Cluster.run(*work)` in a cluster that has a relay if it is linked; leaves in `directory` what links carried.

    Args:
        cluster: where it runs.
        directory: of the run.
        work: the function and its arguments.
        counted: whether to count also when every client stands at `BUILT`, which it then has to come to. Not where
            tasks are started again: each would build its strategy anew.

    Raises:
        RunFailed: a task failed, hung or vanished.
    """
    topology = cluster.topology
    if not cluster.network.relay:
        return cluster.run(*work)
    if not counted:
        try:
            result = cluster.run(*work)
        except RunFailed as failure:  # of which the numbers may be judged nevertheless
            _links(topology, failure.result, {}, None).save(directory)
            raise
        _links(topology, result, {}, None).save(directory)
        return result
    result, built, at = _run_counted(cluster, *work)
    _links(topology, result, built, at).save(directory)
    return result


def _run_counted(cluster: Cluster, *work: Any) -> tuple[RunResult, _Counters, float]:
    """The outcome, what was carried when every client stood at `BUILT`, and when that was."""

    def count(run: Run) -> tuple[RunResult, _Counters, float]:
        built, at = _built(run, cluster.topology)
        return run.join(seconds=0.0 if built is None else None), built or {}, at

    for task in cluster.topology.clients:
        cluster.set_gate(task, BUILT)
    return cluster.attempt(count, lambda: cluster.start(*work))


def _built(run: Run, topology: Topology) -> tuple[_Counters | None, float]:
    """What was carried when every client had built its strategy, and when that was; then the clients go on.

    Nothing (None) if one had not within the run's timeout.
    """
    deadline = time.monotonic() + run.options.timeout
    standing = []
    try:
        for task in topology.clients:
            if not run.wait_gate(task, BUILT, max(0.0, deadline - time.monotonic())):
                break  # it has failed, which the end of the run reports
            standing.append(task)
    except DeadlineExceeded:
        return None, time.monotonic()
    counters = run.network.counters() if len(standing) == len(topology.clients) else {}
    for task in standing:
        run.open_gate(task)
    return counters, time.monotonic()


def _links(topology: Topology, result: RunResult, built: _Counters, at: float | None) -> Links:
    tasks = tuple(topology.networked)
    links = []
    for link in result.links:
        # A worker also reaches itself through its own server.
        if link.src == link.dst or link.src not in tasks or link.dst not in tasks or not link.bytes:
            continue
        before = built.get((link.src, link.dst), LinkCounters(link.src, link.dst))
        since = None if at is None else link.bytes - before.bytes
        links.append(LinkBytes(link.src, link.dst, link.bytes, since, link.connections - before.connections))
    return Links(tasks, tuple(links), None if at is None else time.monotonic() - at)
