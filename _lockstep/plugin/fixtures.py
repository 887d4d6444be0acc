"""The fixtures `cluster`, `strategy` and `script`, and how markers feed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from _lockstep.plugin.markers import WrongMarker, cases_of, check_used, commands_of, refuse, shape_of
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
    from simulator import Cluster, Topology, UsageError

    try:
        shape, options = shape_of(request.node.get_closest_marker("cluster"))
        made = Cluster(Topology(**shape), **options)
    except (WrongMarker, UsageError) as error:
        refuse(request.node, error)
    with made as running:
        yield running


@pytest.fixture
def strategy(request: pytest.FixtureRequest) -> StrategyCase:
    """One `StrategyCase` after the other of those named with `@pytest.mark.strategies("mirrored-2", ...)`."""
    case: StrategyCase | None = getattr(request, "param", None)
    if case is None:
        refuse(request.node, 'the fixture `strategy` needs names; write @pytest.mark.strategies("mirrored-2")')
    return case


@pytest.fixture
def script(request: pytest.FixtureRequest) -> list[str]:
    """One command after the other of the scripts named with `@pytest.mark.scripts("train.py --epochs 1", ...)`."""
    command: list[str] | None = getattr(request, "param", None)
    if command is None:
        refuse(request.node, 'the fixture `script` needs scripts; write @pytest.mark.scripts("train.py")')
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
    try:
        check_used(metafunc)
        _generate_scripts(metafunc)
        _generate_strategies(metafunc)
    except (WrongMarker, pytest.UsageError) as error:
        refuse(metafunc.definition, error)


def _generate_strategies(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("strategies")
    if "strategy" in metafunc.fixturenames and marker is not None:  # else the test or its module does it itself
        metafunc.parametrize("strategy", cases_of(marker, hardware_of(metafunc.config)), indirect=True)


def _generate_scripts(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("scripts")
    if "script" in metafunc.fixturenames and marker is not None:
        metafunc.parametrize("script", commands_of(marker), ids=list(marker.args), indirect=True)


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
