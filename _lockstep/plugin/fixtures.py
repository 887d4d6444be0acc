"""The fixtures `cluster`, `strategy` and `script`, and how markers feed them."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from _lockstep.plugin.needed import need_lockstep

if TYPE_CHECKING:
    from harness.subject.strategies import StrategyCase
    from simulator import Cluster

TABLE_PROPERTY = "lockstep-table"


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A started `simulator.Cluster` of the shape given with `@pytest.mark.cluster(worker=2, ps=1, ...)`.

    Whatever else the marker has is an option of `Cluster`, such as `timeout=60` or `network="namespaces"`.
    """
    need_lockstep()
    from simulator import Cluster, Topology
    from simulator.topology import JOBS

    marker = request.node.get_closest_marker("cluster")
    if marker is None:
        raise pytest.UsageError("the fixture `cluster` needs its shape; write @pytest.mark.cluster(worker=2)")
    shape = dict(marker.kwargs)
    options = {name: shape.pop(name) for name in list(shape) if name not in (*JOBS, "devices")}
    if unknown := options.keys() - inspect.signature(Cluster).parameters.keys():
        raise pytest.UsageError(
            f"@pytest.mark.cluster has no {', '.join(sorted(unknown))}; it takes {', '.join(JOBS)}, devices, and the "
            "options of simulator.Cluster"
        )
    with Cluster(Topology(**shape), **options) as running:
        yield running


@pytest.fixture
def strategy(request: pytest.FixtureRequest) -> StrategyCase:
    """One `StrategyCase` after the other of those named with `@pytest.mark.strategies("mirrored-2", ...)`."""
    case: StrategyCase | None = getattr(request, "param", None)
    if case is None:
        raise pytest.UsageError('the fixture `strategy` needs names; write @pytest.mark.strategies("mirrored-2")')
    return case


@pytest.fixture
def script(request: pytest.FixtureRequest) -> list[str]:
    """One command after the other of the scripts named with `@pytest.mark.scripts("train.py --epochs 1", ...)`."""
    command: list[str] | None = getattr(request, "param", None)
    if command is None:
        raise pytest.UsageError('the fixture `script` needs scripts; write @pytest.mark.scripts("train.py")')
    return command


@pytest.fixture
def report_row(request: pytest.FixtureRequest) -> Callable[[str, Mapping[str, object]], None]:
    """Call it as `report_row("title", {"column": value})` to add a row to a table of the report, see `lockstep
    report`.
    """

    def add(table: str, cells: Mapping[str, object]) -> None:
        need_lockstep()
        import msgspec

        from harness.report import TableRow

        row = TableRow(table, {name: str(value) for name, value in cells.items()})
        # The report's properties travel through xdist and into JUnit files.
        request.node.user_properties.append((TABLE_PROPERTY, msgspec.json.encode(row).decode()))

    return add


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize `script`, and `strategy`. Names under the marker's `full=` are left to `--profile=full`."""
    _generate_scripts(metafunc)
    if "strategy" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("strategies")
    if marker is None:
        return  # the test or its module parametrizes `strategy` itself
    if not marker.kwargs.keys() <= {"full"}:
        raise pytest.UsageError("strategies takes names, and more names for --profile=full as full=(...)")
    need_lockstep()
    from harness.subject.strategies import strategy_case

    names: list[str] = list(marker.args)
    if metafunc.config.getoption("--profile") == "full":
        names += [name for name in marker.kwargs.get("full", ()) if name not in names]
    hardware = hardware_of(metafunc.config)
    cases: list[Any] = [strategy_case(name, hardware) for name in names]
    metafunc.parametrize("strategy", cases, ids=[case.name for case in cases], indirect=True)


def _generate_scripts(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("scripts")
    if "script" not in metafunc.fixturenames or marker is None:
        return
    if marker.kwargs or not all(isinstance(each, str) and each.strip() for each in marker.args):
        raise pytest.UsageError('scripts takes commands without python, such as "train.py --epochs 1"')
    commands = [["python", *shlex.split(each)] for each in marker.args]
    metafunc.parametrize("script", commands, ids=list(marker.args), indirect=True)


def hardware_of(config: pytest.Config) -> str:
    """The hardware asked for; `auto` is a GPU or TPU if there is one, never a simulated one, else the CPU."""
    chosen: str = config.getoption("--hardware")
    if chosen != "auto":
        return chosen
    need_lockstep()
    import os

    from simulator.capabilities import accelerators
    from simulator.hardware import gpus

    if accelerators.tpus(os.environ):
        return "tpu"
    return "gpu" if gpus() else "cpu"
