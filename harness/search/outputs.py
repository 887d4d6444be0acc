"""States of a job that its logs, its errors and its numbers show, besides those of its journal."""

from __future__ import annotations

import math
import re
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.judging.laws.protocol import Judgement
from harness.search.situations import State
from simulator import RunResult, TaskError
from simulator.journal.startup_lines import StartupLines

# So many of a task's last lines; a training that logs each step would have thousands, nearly all alike.
_LINES_MAX, _WIDTH_MAX = 200, 160
_FRAMES_MAX = 3
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib"))
# `2026-01-31 12:00:00.000000: W tensorflow/core/x.cc:153] ...`: what it says has addresses and counts in it.
_NATIVE = re.compile(r"^\S+ \S+ ([WEF]) (\S+\.(?:cc|h):\d+)\]")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e[-+]?\d+)?")
# Between the tracebacks of an error and of those that it came from.
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# What Lockstep itself writes into a log.
_OURS = "--- lockstep: "
_PATH = re.compile(r"(/[^/\s:'\"]+)+/")
# A margin below this part of a bound says nothing.
_MARGIN_MIN = 1e-3


def states_of_result(result: RunResult) -> Iterator[State]:
    """The stack of the program's own code in which each task died, and the lines of each job's logs.

    Numbers and folders in a line are left out, so that a loss is the same line in each step and each run.
    """
    for name, task in result.items():
        job = name.partition(":")[0]
        for life in task.incarnations:
            if life.error is not None and (frames := own_frames(life.error)):
                yield ("stack", job, life.error.kind, *frames[-_FRAMES_MAX:])
        startup = StartupLines()
        for line in _without_tracebacks(task.log.splitlines()[-_LINES_MAX:]):
            if not startup.hides(line) and not line.startswith(_OURS) and (text := _plain(line)):
                yield ("line", job, text)


def states_of_margins(judgements: Iterable[Judgement]) -> Iterator[State]:
    """How near each law came to being broken, as a power of ten of its bound."""
    for law in judgements:
        ratio = law.worst_ratio
        if ratio is not None and _MARGIN_MIN <= ratio <= 1.0:
            yield ("margin", law.law, f"below {10.0 ** math.ceil(math.log10(ratio)):g} of its bound")


def own_frames(error: TaskError) -> list[str]:
    """`train.py:12` of each frame of its traceback that is in no installed package, the innermost last."""
    found = [match for match in _FRAME.finditer(error.traceback) if not match["file"].startswith((*_INSTALLED, "<"))]
    return [f"{Path(match['file']).name}:{match['line']}" for match in found]


def _without_tracebacks(lines: Iterable[str]) -> Iterator[str]:
    """All lines but those of a traceback before its last, which says what was wrong."""
    within = False
    for line in lines:
        within = line.startswith("Traceback (") or (within and (not line or line[0].isspace()))
        if not within and line not in _CHAINED:
            yield line


def _plain(line: str) -> str:
    """A line without what is another in each run."""
    native = _NATIVE.match(line)
    text = f"{native[1]} {native[2]}" if native else _NUMBER.sub("N", _PATH.sub("", line))
    return text.strip()[:_WIDTH_MAX]
