"""Arguments of another kind are told in one line, before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness import verify
from simulator import Cluster, Topology, UsageError
from simulator.arguments import check_kind, check_names
from simulator.faults import Kill

_FAULTS = [Kill("worker:0", step=1)]


def _train(strategy: Any, record: Any) -> None:
    """Is never run."""


# Calls that are wrong on purpose, which a checker of types would refuse.
_MADE: Callable[..., Any] = Cluster
_CLUSTER: Callable[..., Any] = partial(Cluster, Topology(worker=2))
_VERIFY: Callable[..., Any] = partial(verify, _train, "mirrored-2")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (partial(_MADE, {"worker": 2}), r"topology=\{'worker': 2\} is not understood; write topology=Topology"),
        (partial(_CLUSTER, faults=_FAULTS), r"faults=\[Kill.* is not understood; write faults=FaultPlan\(faults="),
        (partial(_CLUSTER, restarts="1"), "restarts='1' is not understood; write restarts=2"),
        (partial(_CLUSTER, out=5), "out=5 is not understood; write out='runs'"),
        (partial(_CLUSTER, env={"A": 1}), "env has 'A': 1; environment variables are text, such as {'A': '1'}"),
        (partial(_CLUSTER, env="A=1"), "env='A=1' is not understood"),
        (partial(_VERIFY, faults=_FAULTS), "write faults=FaultPlan"),
        (partial(_VERIFY, seed="x"), "seed='x' is not understood; write seed=20"),
        (partial(_VERIFY, exlpain=True), r"no argument exlpain; did you mean explain\?$"),
        (partial(_VERIFY, zzz=1), "no argument zzz; it takes explain, faults"),
    ],
)
def test_what_is_of_another_kind_is_a_usage_error(wrong: Callable[[], Any], said: str) -> None:
    """It names the argument, and how it is written."""
    with pytest.raises(UsageError, match=said):
        wrong()


def test_what_is_no_function_starts_nothing() -> None:
    """The way to run a program is named."""
    nothing: Any = "train.py"
    with Cluster(Topology(worker=1), preload=()) as cluster, pytest.raises(UsageError, match="run_command"):
        cluster.run(nothing)


class _Place:
    """A path that is no `Path`, such as that of pytest's fixture `tmpdir`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return str(self._path)


def test_a_path_may_be_of_any_kind(tmp_path: Path) -> None:
    """As for Python itself."""
    place: Any = _Place(tmp_path / "runs")
    with Cluster(Topology(worker=1), preload=(), out=place) as cluster:
        cluster.run(print)
    assert (tmp_path / "runs" / "0").is_dir()


def test_a_bool_is_no_number() -> None:
    """Python takes it for one; what is of a right kind passes."""
    with pytest.raises(UsageError, match="restarts=True"):
        check_kind("restarts", True, int, "2")
    check_kind("relay", True, bool, "True")
    check_kind("restarts", 2, int, "2")
    check_names("verify", ["machines"], ["machines"])
