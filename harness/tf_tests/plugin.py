"""The hooks of `pytest -p harness.tf_tests`: files are collected and run in processes of their own."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from harness.tf_tests.inside.messages import LEFT_PROPERTY, PLUGIN
from harness.tf_tests.nodes import SESSION, HostedFile, HostedItem
from harness.tf_tests.process import FileProcessEnded, TimedOut
from harness.tf_tests.session import Session, options_for

__all__ = [
    "pytest_addoption",
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_pycollect_makemodule",
    "pytest_report_header",
    "pytest_runtest_protocol",
    "pytest_terminal_summary",
    "pytest_unconfigure",
]

_OWN = frozenset({"harness.tf_tests", "harness.tf_tests.plugin"})
_TEST_SECONDS_MAX = 300.0
# Four replicas in a process, which wait, and as many threads besides.
_INTER_OP_THREADS = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long a test may take, and which files are meant."""
    group = parser.getgroup("lockstep-tf-tests", "Lockstep: tests for TensorFlow's multi-process runner")
    group.addoption(
        "--tf-test-seconds",
        type=float,
        default=_TEST_SECONDS_MAX,
        metavar="SECONDS",
        help=f"how long one test may take until its processes say their stacks and are killed "
        f"(default: {_TEST_SECONDS_MAX:.0f})",
    )
    parser.addini(
        "tf_tests_files",
        help="of the test files those that run in processes of their own: patterns of fnmatch for paths from the "
        "rootdir (default: all)",
        type="args",
        default=["*"],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse what cannot work."""
    if _inside(config):
        return
    if config.getoption("usepdb", False):
        raise pytest.UsageError(
            "--pdb does not work with harness.tf_tests: tests run in processes without a terminal. Run the one "
            "test with plain pytest, if it needs no tasks, or write what you want to see to stderr"
        )
    if config.getoption("--tf-test-seconds") <= 0:
        raise pytest.UsageError("--tf-test-seconds must be more than 0")
    session = Session(
        config.invocation_params.dir,
        options_for(config, _OWN),
        _devices(config) | _threads(),
        config.getoption("--tf-test-seconds"),
    )
    config.stash[SESSION] = session


def _inside(config: pytest.Config) -> bool:
    """Whether this is the session in the process of a file, which has this plugin too where an ini file asks for it."""
    return config.pluginmanager.has_plugin(PLUGIN)


def _devices(config: pytest.Config) -> dict[str, str]:
    """What the processes of files have in their environment, so that TensorFlow sees the devices asked for.

    Raises:
        pytest.UsageError: they cannot be had.
    """
    from simulator.errors import LockstepError
    from simulator.hardware.detecting import task_variables

    kind = config.getoption("--hardware", "cpu")
    if kind == "cpu":
        return {"CUDA_VISIBLE_DEVICES": "-1"}
    if kind.startswith("tpu"):
        raise pytest.UsageError(
            f"--hardware={kind}: harness.tf_tests starts no tasks on TPUs; leave it out, and tests skip"
        )
    try:
        return task_variables(kind)
    except LockstepError as error:
        raise pytest.UsageError(str(error)) from error


def _threads() -> dict[str, str]:
    """Of each process for operations side by side: TensorFlow has one for each core.

    A replica that waits for an input or for another replica occupies one, so that on two cores two replicas on one
    device each stand still for ever. Its own tests run on larger machines.
    """
    cores = len(os.sched_getaffinity(0))
    return {"TF_NUM_INTEROP_THREADS": os.environ.get("TF_NUM_INTEROP_THREADS") or str(max(cores, _INTER_OP_THREADS))}


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say that tests run elsewhere."""
    if _inside(config):
        return []
    seconds = config.stash[SESSION].test_seconds_max
    simulated = config.getoption("--hardware", "cpu") == "gpu-simulated"
    on = ", on simulated GPUs (TensorFlow's kernels for the CPU)" if simulated else ""
    return [f"lockstep: each test file in a process of its own, tests for at most {seconds:g} s{on}"]


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take the files that are meant; pytest itself takes the others."""
    config = parent.config
    if _inside(config) or module_path.name == "__init__.py":
        return None
    try:
        relative = str(module_path.relative_to(config.rootpath))
    except ValueError:
        relative = str(module_path)
    if not any(fnmatch(relative, pattern) for pattern in config.getini("tf_tests_files")):
        return None
    return HostedFile.from_parent(parent, path=module_path)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let go of the process that is kept for the first file, if another one comes first or nothing runs."""
    config = session.config
    if not _inside(config) and (config.getoption("collectonly") or not session.items):
        config.stash[SESSION].end()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Have the test run in the process of its file."""
    if not isinstance(item, HostedItem):
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    following = nextitem.number if isinstance(nextitem, HostedItem) and nextitem.path == item.path else None
    session = item.config.stash[SESSION]
    try:
        for data in session.run(item.path, item.number, following):
            data["nodeid"], data["location"] = item.nodeid, item.location
            hook.pytest_runtest_logreport(
                report=item.config.hook.pytest_report_from_serializable(config=item.config, data=data)
            )
    except FileProcessEnded as ended:
        _fail(item, f"the process of {item.path.name} {ended} while it ran this test")
    except TimedOut as late:
        _fail(item, f"not over after {session.test_seconds_max:g} s; its processes have been killed\n{late}")
    else:
        if following is None:
            session.end()
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _fail(item: HostedItem, text: str) -> None:
    """Report the test as failed, with what its process wrote; the next one has a new process."""
    session = item.config.stash[SESSION]
    log = session.log()
    session.end()
    report = pytest.TestReport(
        item.nodeid,
        item.location,
        dict.fromkeys(item.keywords, 1),
        "failed",
        text,
        "call",
        sections=[("log of the file's process", log)] if log else [],
    )
    item.ihook.pytest_runtest_logreport(report=report)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which files left processes running."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == LEFT_PROPERTY and report.when == "teardown":
                    terminalreporter.write_line(
                        f"lockstep: {report.nodeid.partition('::')[0]} left processes running, now killed: {value}"
                    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing."""
    if (session := config.stash.get(SESSION, None)) is not None:
        session.end()
