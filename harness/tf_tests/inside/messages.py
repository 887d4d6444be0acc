"""What the user's session of pytest and the process of a test file say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Under this name the hooks of the session inside are registered there.
PLUGIN = "lockstep-tf-tests-inside"
# Of a test's last report: processes that its module has left running.
LEFT_PROPERTY = "tf_tests_left"
# Of a test's last report: it has used processes, and is refused without this plugin.
STARTED_PROPERTY = "tf_tests_started"


@dataclass(frozen=True)
class SessionOrder:
    """What the process of a file is started with.

    Attributes:
        path: of the file.
        directory: to work in.
        options: of pytest, as parsed.
        environ: the environment of the process and its tasks.
        scratch: a directory of its own, removed when it has ended.
        log: where what is written to stdout and stderr goes while nothing captures it.
    """

    path: str
    directory: str
    options: Mapping[str, Any]
    environ: Mapping[str, str]
    scratch: str
    log: str


@dataclass(frozen=True)
class TestEntry:
    """One test: its names from the file down, its marks (name, arguments, keywords), its location as pytest has it."""

    names: tuple[str, ...]
    marks: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...]
    location: tuple[str, int | None, str]


@dataclass(frozen=True)
class Collected:
    """The tests of the file."""

    entries: list[TestEntry]


@dataclass(frozen=True)
class NotCollected:
    """Why there are none: `failed` with pytest's text, or `skipped` with the reason."""

    outcome: str
    text: str


@dataclass(frozen=True)
class RunTests:
    """Run the test of this number; the next one, if any, will be `following`."""

    number: int
    following: int | None


@dataclass(frozen=True)
class TestReport:
    """A report of pytest, as it makes it serializable."""

    data: dict[str, Any]


@dataclass(frozen=True)
class Finished:
    """The test of this number has run."""

    number: int
