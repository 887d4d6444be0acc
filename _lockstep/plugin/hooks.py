"""pytest's hooks: options, hardware requirements, known issues, and the matrix at the end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from _lockstep import names
from _lockstep.plugin import machines, required
from _lockstep.plugin.cache import forget_references, share_references
from _lockstep.plugin.cells import CELL_PROPERTY, cell_of, find_known_issues, has_strategy, judge_known
from _lockstep.plugin.fixtures import TABLE_PROPERTY, hardware_of
from _lockstep.plugin.markers import WrongMarker, refuse
from _lockstep.plugin.needed import need_lockstep
from _lockstep.plugin.tracebacks import only_theirs
from _lockstep.preloads import also_preload
from _lockstep.verdicts import DEVICE_PROPERTY, on_verdict

if TYPE_CHECKING:
    from harness.judging.verdict import Verdict
    from harness.report import Cell, Matrix, TableRow

_VERDICTS = pytest.StashKey["list[Verdict]"]()
_CELLS = pytest.StashKey["list[Cell]"]()
_ROWS = pytest.StashKey["list[TableRow]"]()
_DEVICES = pytest.StashKey[set[str]]()
_WRONG = pytest.StashKey[str]()
_NOWHERE = pytest.StashKey[bool]()
_NETWORK = pytest.StashKey["str | None"]()
# What pytest-rerunfailures makes of the outcome of a test that it runs again.
_RERUN = "rerun"
_MATRIX = "matrix.json"
_SUMMARY = "GITHUB_STEP_SUMMARY"
_REQUIRE = "missing hardware is a failure, not a skip; so is a session with --hardware in which nothing ran on it"
_MARKERS = (
    "cluster(worker=0, ps=0, chief=0, evaluator=0, devices='cpu:1', ...): shape of the fixture `cluster`",
    "strategies(*names, full=()): strategies that the fixture `strategy` goes through; `full` only with --profile=full",
    "scripts(*commands): scripts with their arguments that the fixture `script` goes through, for verify(script, ...)",
    "requires(gpus=0, simulated=False, tpu=False, network='loopback', xla=False): skip, with the reason, without this",
    "known_issue(id): an upstream defect of the registry; its exact symptom must appear",
    "full: run only with --profile=full",
    "loop(kind): kind of training loop, to look up known issues; a parameter called `loop` does the same",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the contract."""
    group = parser.getgroup("lockstep", "Lockstep: distributed training, verified")
    group.addoption("--profile", choices=("quick", "full"), default="quick", help="how much to run (default: quick)")
    group.addoption(
        "--hardware",
        choices=("cpu", "gpu", "gpu-simulated", "tpu", "tpu-rehearsed", "auto"),
        default="cpu",
        help="what strategies run on; the reference always runs on the CPU. gpu-simulated is a GPU to TensorFlow, and "
        "none: it is built on first use, by g++; tpu-rehearsed compiles steps as for a TPU, on the CPU (default: cpu)",
    )
    group.addoption("--require-hardware", action="store_true", help=_REQUIRE)
    group.addoption(
        "--network",
        choices=required.NETWORKS,
        default="loopback",
        help="where clusters have their network: on this machine's loopback interface, or a host of its own for each "
        "task (default: loopback)",
    )
    machines.add_options(group)
    group.addoption("--lockstep-out", metavar="DIR", help="write matrix.json with every verdict into DIR")


def pytest_configure(config: pytest.Config) -> None:
    """Register markers; give all processes of the session one cache of reference runs."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    # Who unpickles a function imports its module, and a module of tests imports this.
    also_preload("simulator.cluster", bare=True)
    config.stash[_CELLS], config.stash[_ROWS], config.stash[_DEVICES] = [], [], set()
    _choose_network(config)
    machines.choose(config)
    _check_out(config)
    if not hasattr(config, "workerinput"):
        collector = Collector(config.stash[_CELLS], config.stash[_ROWS], config.stash[_DEVICES])
        config.pluginmanager.register(collector, "lockstep-collector")
    if config.getoption("dist", "no") != "no":  # this process will not see which tests there are
        share_references(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is not the default, and whose package would be in the way of Lockstep's."""
    chosen = config.getoption("--network")
    lines = [] if chosen == "loopback" else [f"network={chosen}, a host of its own for each task of a cluster"]
    lines += machines.told(config)
    lines += [
        f"off, unless a test uses it: {name!r} is {where} in this session, and Lockstep has a package of that name"
        for name in names.PACKAGES
        if (where := names.stranger(name))
    ]
    return [f"lockstep: {line}" for line in lines]


def _check_out(config: pytest.Config) -> None:
    """Refuse, before anything runs, a --lockstep-out in which the matrix cannot be written, or would replace a file."""
    out = config.getoption("--lockstep-out")
    if not out or hasattr(config, "workerinput"):
        return
    from harness.report.diff import read_matrix
    from simulator import UsageError

    path = Path(out) / _MATRIX
    try:
        if path.exists():
            read_matrix(path)
    except UsageError as error:
        raise pytest.UsageError(f"--lockstep-out={out} would replace a file: {error}") from error
    # Not made yet: a session that has no verdict leaves nothing.
    there = next(each for each in path.absolute().parents if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise pytest.UsageError(f"--lockstep-out={out} cannot be made: {there} is no directory that can be written to")


def _write_matrix(data: bytes, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        pytest.exit(f"{path} cannot be written: {error.strerror}", returncode=pytest.ExitCode.INTERNAL_ERROR)


def _add_to_summary(matrix: Matrix, path: Path) -> None:
    """Add the matrix to what GitHub shows of a job; that this cannot be written is no failure of the tests."""
    from harness.report.matrix import markdown

    with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
        file.write(markdown(matrix))


def _choose_network(config: pytest.Config) -> None:
    """Give every cluster of the session, in xdist's workers too, the network that was asked for, or refuse."""
    chosen = config.getoption("--network")
    if chosen == "loopback" or hasattr(config, "workerinput"):
        return
    need_lockstep()
    from simulator.network import NETWORK_VARIABLE

    if why := required.why_no_hosts():
        raise pytest.UsageError(f"--network={chosen} cannot be had on this machine: {why}; see `lockstep doctor`")
    config.stash[_NETWORK] = os.environ.get(NETWORK_VARIABLE)
    os.environ[NETWORK_VARIABLE] = chosen


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache, and forget the network."""
    if _NETWORK in config.stash:
        from simulator.network import NETWORK_VARIABLE

        before = config.stash[_NETWORK]
        os.environ.pop(NETWORK_VARIABLE) if before is None else os.environ.__setitem__(NETWORK_VARIABLE, before)
    machines.forget(config)
    forget_references(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Look up known issues; leave tests marked `full` to --profile=full."""
    for item in items:
        try:
            find_known_issues(item)
        except pytest.UsageError as error:
            if not hasattr(config, "workerinput"):
                raise
            item.stash[_WRONG] = str(error)  # raised in a worker, xdist would report an internal error of its own
    if names.loaded("harness"):
        share_references(config)
    if config.getoption("--profile") == "full":
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or fail under --require-hardware, what this machine cannot run."""
    # Where a test is run again, as by pytest-rerunfailures, it is the same item, with all that the first time had left.
    item.user_properties[:] = [each for each in item.user_properties if each[0] not in (CELL_PROPERTY, TABLE_PROPERTY)]
    if wrong := item.stash.get(_WRONG, None):
        pytest.fail(wrong, pytrace=False)
    try:
        reason = required.missing(item)
    except WrongMarker as error:
        refuse(item, error)
    if reason:
        if item.config.getoption("--require-hardware"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    if reason := required.unfit(item):
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Collect the verdicts that a test reaches."""
    item.stash[_VERDICTS] = []
    with on_verdict(item.stash[_VERDICTS].append):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn an outcome into known / fixed upstream / newly broken, and attach the cell to the report."""
    with only_theirs(item, call):
        report = yield
    verdicts = item.stash.get(_VERDICTS, [])
    if report.when == "call":
        report.sections += [
            ("lockstep verdict", str(verdict)) for verdict in verdicts if report.failed and not verdict.consistent
        ]
        _shorten(call, report, verdicts)
        judge_known(item, call, report, verdicts)
    # A test that has no strategy and reaches no verdict, such as a project's other tests, has no place in the matrix.
    concerns_us = bool(verdicts) or (names.loaded("harness") and has_strategy(item))
    if concerns_us and (report.when == "call" or (report.when == "setup" and not report.passed)):
        cell = (CELL_PROPERTY, cell_of(item, report, verdicts))
        report.user_properties.append(cell)
        item.user_properties.append(
            cell
        )  # from there into the report of the teardown, which is the one that JUnit files show
    return report


def _shorten(call: pytest.CallInfo[None], report: pytest.TestReport, verdicts: Sequence[Verdict]) -> None:
    """Have the short summary say what is wrong, where an assertion only says that a verdict is not true."""
    wrong = [verdict for verdict in verdicts if not verdict.consistent]
    crash = getattr(report.longrepr, "reprcrash", None)
    if wrong and crash is not None and call.excinfo is not None and call.excinfo.errisinstance(AssertionError):
        crash.message = wrong[-1].headline


class Collector:
    """Gathers the cells, table rows and devices of all reports; registered in the process that prints the summary."""

    def __init__(self, cells: list[Cell], rows: list[TableRow], devices: set[str]) -> None:
        self._cells = cells
        self._rows = rows
        self._devices = devices
        self._before: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Decode the cell and the table rows of each report, wherever the test ran.

        Of a test that is run again the last time counts, and its cell says what the others had come to.
        """
        self._devices.update(str(value) for name, value in report.user_properties if name == DEVICE_PROPERTY)
        ours = [each for each in report.user_properties if each[0] in (CELL_PROPERTY, TABLE_PROPERTY)]
        if not ours:
            return
        need_lockstep()
        import msgspec

        from harness.report import Cell, TableRow

        for name, value in ours:
            if name == CELL_PROPERTY and report.when != "teardown":
                cell = msgspec.json.decode(str(value), type=Cell)
                if report.outcome == _RERUN:
                    self._before.setdefault(report.nodeid, []).append(cell.reason or cell.outcome)
                elif before := self._before.pop(report.nodeid, None):
                    said = [f"run {len(before) + 1} times; before: {' / '.join(before)}", *filter(None, [cell.reason])]
                    self._cells.append(msgspec.structs.replace(cell, reason="; ".join(reversed(said))))
                else:
                    self._cells.append(cell)
            elif name == TABLE_PROPERTY and report.when == "call" and report.outcome != _RERUN:
                self._rows.append(msgspec.json.decode(str(value), type=TableRow))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Under --require-hardware a session has failed in which nothing says that it ran on such hardware."""
    config = session.config
    if hasattr(config, "workerinput") or not required.demands_devices(config) or exitstatus != pytest.ExitCode.OK:
        return
    from harness.subject.devices import ran_on

    asked = config.getoption("--hardware")
    devices = config.stash[_DEVICES].union(*(cell.devices for cell in config.stash[_CELLS]))
    if not any(ran_on(device, asked) for device in devices):
        config.stash[_NOWHERE] = True
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the matrix and write it to --lockstep-out."""
    cells, rows = config.stash[_CELLS], config.stash[_ROWS]
    if config.stash.get(_NOWHERE, False):
        chosen = config.getoption("--hardware")
        terminalreporter.write_line(
            f"lockstep: --require-hardware with --hardware={chosen}, and no verdict was reached on such a device, "
            "nor has a test of harness.tf_tests passed that wants one: the session has failed",
            red=True,
        )
    if not cells and not rows:
        return
    from harness.report import Matrix, gather, in_order

    matrix = Matrix(cells=in_order(cells), versions=_versions(), hardware=hardware_of(config), tables=gather(rows))
    terminalreporter.section(
        f"lockstep matrix ({', '.join(f'{name} {text}' for name, text in matrix.versions.items())})"
    )
    for line in matrix.lines(terminalreporter._tw.fullwidth):  # noqa: SLF001 - pytest has no public name for it
        terminalreporter.write_line(line)
    terminalreporter.write_line(_defects({cell.strategy for cell in cells}, hardware_of(config)))
    # The tables themselves would bury the matrix.
    if matrix.tables:
        titles = "; ".join(table.title for table in matrix.tables)
        terminalreporter.write_line(f"tables, shown by `lockstep report` of a --lockstep-out folder: {titles}")
    if out := config.getoption("--lockstep-out"):
        path = Path(out) / _MATRIX
        _write_matrix(matrix.to_json(), path)
        terminalreporter.write_line(f"written: {path}")
    if summary := os.environ.get(_SUMMARY):
        _add_to_summary(matrix, Path(summary))


def _defects(strategies: set[str], hardware: str) -> str:
    from harness.judging.known_issues import concerning

    met = f"{len(concerning(strategies, hardware))} known defects of these versions"
    return f"{met} can be met under these strategies: `lockstep audit` names those that a program meets"


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("tensorflow", "keras", "tf_keras"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
