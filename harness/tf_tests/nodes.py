"""pytest's nodes of a test file whose tests run elsewhere: the same names as if they ran here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NoReturn

import pytest

from harness.tf_tests.inside.messages import Collected, NotCollected, TestEntry
from harness.tf_tests.process import FileProcessEnded, TimedOut
from harness.tf_tests.session import COLLECT_SECONDS_MAX, Session

SESSION = pytest.StashKey[Session]()


class HostedItem(pytest.Item):
    """One test.

    Attributes:
        number: of the test in its file.
        file: its file.
    """

    def __init__(self, *, number: int, entry: TestEntry, file: HostedFile, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number
        self.file = file
        self._location = entry.location
        for name, args, keywords in entry.marks:
            self.add_marker(getattr(pytest.mark, name)(*args, **keywords) if args or keywords else name)

    def runtest(self) -> NoReturn:
        """Never called: `pytest_runtest_protocol` asks the file's process."""
        raise AssertionError("a hosted test runs in the process of its file")

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Where the test is."""
        return self.path, self._location[1], self._location[2]


class HostedClass(pytest.Collector):
    """A class of tests, or whatever else has tests below it."""

    def __init__(
        self, *, entries: list[tuple[int, tuple[str, ...], TestEntry]], file: HostedFile, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._entries = entries
        self._file = file

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """What is directly below."""
        return _children(self, self._entries, self._file)


class HostedFile(pytest.File):
    """A test file, collected in a process of its own."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Ask the file's process which tests there are."""
        session = self.config.stash[SESSION]
        try:
            said = session.collect(self.path)
        except FileProcessEnded as ended:
            raise self.CollectError(f"{self.path} could not be collected: its process {ended}") from ended
        except TimedOut as late:
            text = f"{self.path} was not collected after {COLLECT_SECONDS_MAX:g} s; its process has been killed\n{late}"
            raise self.CollectError(text) from late
        if isinstance(said, NotCollected):
            if said.outcome == "skipped":
                pytest.skip(said.text, allow_module_level=True)
            raise self.CollectError(said.text)
        assert isinstance(said, Collected)
        entries = [(number, each.names, each) for number, each in enumerate(said.entries)]
        # As the `main` of TensorFlow's tests has it, and unittest's: classes by their names, some of which rely on it.
        return _children(self, sorted(entries, key=lambda each: each[1][0] if len(each[1]) > 1 else ""), self)


def _children(
    parent: pytest.Collector, entries: list[tuple[int, tuple[str, ...], TestEntry]], file: HostedFile
) -> Iterator[pytest.Item | pytest.Collector]:
    # A class's tests follow each other, so this keeps their order.
    for name, group in groupby(entries, key=lambda each: each[1][0]):
        below = list(group)
        if len(below[0][1]) == 1:
            for number, _, entry in below:
                yield HostedItem.from_parent(parent, name=name, number=number, entry=entry, file=file)
        else:
            deeper = [(number, names[1:], entry) for number, names, entry in below]
            yield HostedClass.from_parent(parent, name=name, entries=deeper, file=file)
