"""What a process of a test file knows of itself: its file, and the group of processes that end with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class TestFile:
    """A test module.

    Attributes:
        name: of the module.
        path: of the file.
    """

    name: str
    path: str


@dataclass
class State:
    """One for each process.

    Attributes:
        file: the test module, once it is known.
        packages: folders of a source checkout, by the package that they belong to.
        legacy_keras: whether `tf_keras.x` means `tf_keras.src.x`, as in tf_keras's own sources.
        initialized: `test_main` has been called, as TensorFlow's runner asks.
        group: the process group of the file's process, its tasks and what they start; 0 before there is one.
        scratch: a directory that is removed with the file's process.
        in_task: this is a process that TensorFlow's runner has started.
        started: whether the current test has started processes, or asked a pool of them.
        gpus_missing: why the current test, which wants GPUs, has not enough of them.
        computed_on: the kind of GPU that the current test wants and has.
        trouble: what went wrong in the running of the current test, other than that an assertion failed.
    """

    file: TestFile | None = None
    packages: dict[str, str] = field(default_factory=dict)
    legacy_keras: bool = False
    initialized: bool = False
    group: int = 0
    scratch: str = ""
    in_task: bool = False
    started: bool = False
    gpus_missing: str = ""
    computed_on: str = ""
    trouble: list[str] = field(default_factory=list)


STATE = State()


def for_another() -> dict[str, Any]:
    """What another process of the file begins with, as plain data."""
    return {**asdict(STATE), "trouble": [], "in_task": True}
