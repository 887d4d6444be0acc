"""The processes of the test files of one session of pytest: one for each file, and one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.tf_tests.inside.messages import Collected, Finished, NotCollected, RunTests, TestReport
from harness.tf_tests.process import FileProcess

COLLECT_SECONDS_MAX = 300.0
_SIMPLE = (str, int, float, bool, type(None))
# What the user's session has done already, or does by itself.
_NOT_THEIRS: Mapping[str, Any] = {
    "keyword": "",
    "markexpr": "",
    "deselect": None,
    "maxfail": 0,
    "collectonly": False,
    "stepwise": False,
    "stepwise_skip": False,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "cacheclear": False,
    "cacheshow": None,
    "xmlpath": None,
    "log_file": None,
    "usepdb": False,
    "trace": False,
    "dist": "no",
    "distload": False,
    "tx": [],
    "numprocesses": None,
    "maxprocesses": None,
    "looponfail": False,
    "basetemp": None,
    "lockstep_out": None,
    "help": False,
    "version": 0,
}


def options_for(config: pytest.Config, own_plugins: frozenset[str]) -> dict[str, Any]:
    """The options with which the session inside a file's process begins.

    Args:
        config: of the user's session.
        own_plugins: names under which this plugin may have been asked for, which is not wanted inside.
    """
    options = {name: value for name, value in vars(config.option).items() if _is_simple(value)}
    options.update({name: value for name, value in _NOT_THEIRS.items() if name in options})
    options["rootdir"] = str(config.rootpath)
    options["inifilename"] = None if config.inipath is None else str(config.inipath)
    options["plugins"] = [each for each in config.option.plugins if each not in own_plugins]
    options["plugins"] += ["no:terminal", "no:cacheprovider"]
    return options


def _is_simple(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_simple, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_simple(each) for name, each in value.items())
    return isinstance(value, _SIMPLE)


class Session:
    """Starts and ends the processes, and asks them.

    Args:
        directory: to work in.
        options: for the sessions inside, from `options_for`.
        variables: of their environment, besides this process's.
        test_seconds_max: for one test, its fixtures included.
    """

    def __init__(
        self, directory: Path, options: Mapping[str, Any], variables: Mapping[str, str], test_seconds_max: float
    ) -> None:
        self._directory = directory
        self._options = options
        self._variables = variables
        self.test_seconds_max = test_seconds_max
        self._path: Path | None = None
        self._process: FileProcess | None = None

    def collect(self, path: Path) -> Collected | NotCollected:
        """Which tests this file has. The process of the first file stays, for that will be the first to run.

        Raises:
            Ended: the process ended and did not say.
            TimedOut: it has not said in time.
        """
        process = self._start(path)
        keep = False
        try:
            said = process.receive(COLLECT_SECONDS_MAX)
            keep = self._process is None and isinstance(said, Collected) and bool(said.entries)
        finally:
            if keep:
                self._process, self._path = process, path
            else:
                process.end()
        assert isinstance(said, (Collected, NotCollected))
        return said

    def run(self, path: Path, number: int, following: int | None) -> Iterator[dict[str, Any]]:
        """Run one test, and yield its reports.

        Raises:
            Ended: its process ended before the test was over.
            TimedOut: the test was not over in time.
        """
        process = self._of(path)
        process.send(RunTests(number, following))
        while not isinstance(said := process.receive(self.test_seconds_max), Finished):
            assert isinstance(said, TestReport), said
            yield said.data

    def log(self) -> str:
        """What the process at hand wrote while nothing captured it."""
        return "" if self._process is None else self._process.log()

    def end(self) -> None:
        """End the process at hand, if there is one."""
        if self._process is not None:
            self._process.end()
        self._process = self._path = None

    def _of(self, path: Path) -> FileProcess:
        if self._process is None or self._path != path:
            self.end()
            self._process, self._path = self._start(path), path
            self._process.receive(COLLECT_SECONDS_MAX)
        return self._process

    def _start(self, path: Path) -> FileProcess:
        return FileProcess(path, self._directory, self._options, self._variables)
