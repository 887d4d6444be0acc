"""Clusters whose tasks need no TensorFlow, and what the only run of a cluster comes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from simulator import Cluster, RunFailed, RunResult

bare = partial(Cluster, preload=(), timeout=30)


def result_of(cluster: Cluster, function: Callable[..., Any], *args: Any, **options: Any) -> RunResult:
    """What all tasks have returned from this function."""
    with cluster:
        return cluster.run(function, *args, **options)


def result_of_command(cluster: Cluster, command: Sequence[str], **options: Any) -> RunResult:
    """How this program has ended in all tasks."""
    with cluster:
        return cluster.run_command(command, **options)


def failure_of(cluster: Cluster, function: Callable[..., Any], *args: Any, **options: Any) -> RunFailed:
    """Why a run of this function has failed, which it must."""
    with cluster, pytest.raises(RunFailed) as caught:
        cluster.run(function, *args, **options)
    return caught.value


def failure_of_command(cluster: Cluster, command: Sequence[str], **options: Any) -> RunFailed:
    """Why a run of this program has failed, which it must."""
    with cluster, pytest.raises(RunFailed) as caught:
        cluster.run_command(command, **options)
    return caught.value
