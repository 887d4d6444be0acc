"""The process of one test file: a pytest session of its own, which runs what the user's session asks for."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from _lockstep.verdicts import DEVICE_PROPERTY
from harness.tf_tests.inside import (
    checkouts,
    clients,
    main_block,
    processes,
    strict,
    strict_pool,
    task_start,
    tasks,
)
from harness.tf_tests.inside.messages import (
    LEFT_PROPERTY,
    PLUGIN,
    STARTED_PROPERTY,
    Collected,
    Finished,
    NotCollected,
    RunTests,
    SessionOrder,
    TestEntry,
    TestReport,
)
from harness.tf_tests.inside.state import STATE, TestFile
from simulator.agent.process import fresh_signals, leave, redirect_output
from simulator.threads import Worker

_POOLS_SECONDS_MAX = 10.0
# That there is no TPU, as `tpu_util`, `tpu_strategy_util` and `TPUClusterResolver` say it, which begin a test that
# needs no mock of a TPU; and where something is packed for a mesh of TPUs.
_NO_TPU = (
    "no valid TPUs found",
    "TPUs not found in the cluster",
    "Please provide a TPU Name to connect to",
    "/device:TPU:0 unknown device",
)


def main(connection: Any, captured: Any, order: SessionOrder) -> None:
    """Collect the file, then run its tests as they are asked for, until nobody asks any more.

    Args:
        connection: to the session that asks.
        captured: another one, through which it asks what the current test has written so far.
        order: what to do.
    """
    redirect_output(order.log)
    fresh_signals(python=True)
    Path(order.scratch, "tmp").mkdir()
    file, packages = checkouts.find(Path(order.path))
    state: dict[str, Any] = {"file": file, "scratch": order.scratch}
    task_start.begin(state, order.environ)
    os.chdir(order.directory)
    tasks.watch_kill()
    _look_beside(file, packages)
    strict.install()
    _read_flags()
    config = pytest.Config.fromdictargs(dict(order.options), [order.path])
    config.pluginmanager.register(_Inside(connection), PLUGIN)
    Worker.started("captured", partial(_tell_captured, config, captured))
    config.hook.pytest_cmdline_main(config=config)
    leave(0)


def _tell_captured(config: pytest.Config, connection: Any) -> None:
    """Answer once, for a test that has had its time."""
    if _receive(connection) is not None and (manager := config.pluginmanager.getplugin("capturemanager")):
        connection.send("".join(manager.read_global_capture()))


def _look_beside(file: TestFile, packages: Mapping[str, str]) -> None:
    """Of a package's source checkout take what is not installed."""
    if not packages or not checkouts.beside_installed(dict(packages)):
        return
    STATE.packages = dict(packages)
    processes.install()
    if "tf_keras" in packages and Path(packages["tf_keras"], "engine").is_dir():
        from harness.tf_tests.inside import keras_sources

        STATE.legacy_keras = True
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # its integration tests say `tf.keras` and mean itself
        keras_sources.install()


def _read_flags() -> None:
    from absl import flags

    flags.FLAGS([*task_start.ARGUMENTS, main_block.temporary()])


@dataclass
class _Module:
    """The module under test: whether its `__main__` block has run, and what it has raised."""

    ready: bool = False
    error: BaseException | None = None

    def prepare(self, module: Any) -> None:
        """Do once what the block does; raise for each test what it raised."""
        if not self.ready:
            self.ready = True
            STATE.file = TestFile(module.__name__, module.__file__)
            try:
                # A module without a block was written for pytest: nobody could call `test_main` for it.
                STATE.initialized = not main_block.run(module) or STATE.initialized
                main_block.call_deferred()
                if clients.asked():
                    STATE.initialized = True  # its block calls no `test_main`
                    clients.spread(module)
            except BaseException as error:
                self.error = error
                raise
        elif self.error is not None:
            raise self.error


class _Inside:
    """The hooks of the file's own session."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._module = _Module()
        self._failures: list[tuple[str, str]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Have the file's own finder come before that of pytest, which rewrites assertions."""
        checkouts.install()

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Do not import the `__init__.py` of a checkout whose package is imported from elsewhere."""
        return pytest.Dir.from_parent(parent, path=path) if STATE.packages else None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why a file could not be collected, or was skipped."""
        if report.failed:
            self._failures.append(("failed", str(report.longrepr)))
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self._failures.append(("skipped", reason.removeprefix("Skipped: ")))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Say what there is, and run what is asked for."""
        if self._failures:
            self._connection.send(NotCollected(*self._failures[0]))
            return True
        self._connection.send(Collected([_entry(item) for item in session.items]))
        while isinstance(asked := _receive(self._connection), RunTests):
            item = session.items[asked.number]
            following = None if asked.following is None else session.items[asked.following]
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self._connection.send(Finished(asked.number))
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Before each test have TensorFlow's libraries as they should be, and before the first one the module."""
        STATE.trouble.clear()
        STATE.started = False
        STATE.gpus_missing = STATE.computed_on = ""
        strict.install()
        if (module := getattr(item, "module", None)) is not None:
            self._module.prepare(module)
            if clients.asked() and isinstance(item, pytest.Function) and item.cls is not None:
                item.obj = getattr(item.instance, item.name)  # what was collected is from before `spread`

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A test that is expected to fail does not do so by trouble of what runs it, nor one pass without its GPUs.

        One that wants a TPU is skipped.
        """
        report = yield
        if report.failed and (why := _why_no_tpu(call)) is not None:
            report.outcome, report.longrepr = "skipped", (str(item.path), item.location[1] or 0, f"Skipped: {why}")
        if report.skipped and STATE.gpus_missing and getattr(item.config.option, "require_hardware", False):
            report.outcome, report.longrepr = "failed", STATE.gpus_missing
        elif report.passed and report.when == "call" and STATE.computed_on:
            report.user_properties.append((DEVICE_PROPERTY, STATE.computed_on))
        if report.skipped and hasattr(report, "wasxfail") and STATE.trouble:
            report.outcome = "failed"
            report.longrepr = "expected to fail, but not like this: " + "; ".join(STATE.trouble)
            del report.wasxfail
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        """After the last test end what the module shares, and say what it has left."""
        try:
            return (yield)
        finally:
            if STATE.started:
                item.user_properties.append((STARTED_PROPERTY, True))
            if nextitem is None:
                Worker.started("end-pools", strict_pool.end_all).ends(_POOLS_SECONDS_MAX)
                if left := tasks.left():
                    names = ", ".join(f"{each.name} ({each.pid})" for each in left)
                    item.user_properties.append((LEFT_PROPERTY, names))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hand it on."""
        config = self._config
        self._connection.send(TestReport(config.hook.pytest_report_to_serializable(config=config, report=report)))

    def pytest_configure(self, config: pytest.Config) -> None:
        """Remember the session's configuration."""
        self._config = config


def _receive(connection: Any) -> Any:
    try:
        return connection.recv()
    except EOFError:
        return None


def _entry(item: pytest.Item) -> TestEntry:
    names = [each.name for each in item.listchain()]
    # From the file down; what is above it the other session has as well.
    depth = next(index for index, each in enumerate(item.listchain()) if isinstance(each, pytest.File))
    marks = [(mark.name, mark.args, dict(mark.kwargs)) for mark in item.iter_markers()]
    return TestEntry(tuple(names[depth + 1 :]), tuple(marks), item.location)


def _why_no_tpu(call: pytest.CallInfo[None]) -> str | None:
    """Why a test is skipped that has failed so: TensorFlow's own sentence that there is no TPU; None if it is not."""
    if call.excinfo is None:
        return None
    said = next((each for each in _NO_TPU if each in str(call.excinfo.value)), None)
    # After the first such test TensorFlow is initialized, which the others of its process are told instead.
    if said is None and any(map(_asks_dtensor, call.excinfo.traceback)):
        said = "DTensor is asked for TPUs"
    return None if said is None else f"requires a TPU, and nothing is run on one here: {said}"


def _asks_dtensor(entry: Any) -> bool:
    """Whether this is where TensorFlow initializes DTensor for TPUs."""
    return entry.name == "initialize_accelerator_system" and str(entry.locals.get("device_type")).upper() == "TPU"
