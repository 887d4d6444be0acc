"""Which lines of a log are those that TensorFlow writes before it has done anything, and that no user wants to read."""

from __future__ import annotations

import re

# `2026-01-31 12:00:00.000000: I tensorflow/core/util/port.cc:153] ...`, and of absl `I0000 00:00:17.5 7 x.cc:9] ...`
_LOGGED = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: ([IWE]) |([IWE])0000 00:00:\d+\.\d+ +\d+ )\S+\.(?:cc|h):\d+\]"
)
_ALWAYS = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "To enable the following instructions:",
)
# Warnings and errors that say no more than that there is no GPU, or that a data set has come to its end, or what every
# strategy's data set is.
_HARMLESS = re.compile(
    r"cu(?:da|dnn|blas|fft|Init)|CUDA|GPU|TF-TRT|TensorRT|oneDNN|computation_placer|GeneratorDatasetOp"
    r"|OUT_OF_RANGE: End of sequence"
)


# What follows one of these lines and belongs to it: the options of a session as text, or the names of tasks.
_OPENS = re.compile(r"\s*\w+ \{$")
_OPTION = re.compile(r"\s*(?:\w+ \{|\w+: \S.*|\}|)$")
_TASK = re.compile(r"/job:\w+/replica:\d+/task:\d+$")


_FOLLOWED = {_OPENS: (_OPTION,), _OPTION: (_OPTION,), _TASK: (_TASK,)}


class StartupLines:
    """Tells the lines of one log, which it is given one after another."""

    def __init__(self) -> None:
        self._follows: tuple[re.Pattern[str], ...] = ()

    def hides(self, line: str) -> bool:
        """Whether it is information of TensorFlow's native code, or a warning of its start on a machine without GPU."""
        if _is_logged(line):
            self._follows = (_OPENS, _TASK)
            return True
        found = next((each for each in self._follows if each.match(line)), None)
        self._follows = _FOLLOWED[found] if found is not None and line else ()  # an empty line ends the options
        return found is not None


def _is_logged(line: str) -> bool:
    if line.startswith(_ALWAYS):
        return True
    match = _LOGGED.match(line)
    if match is None:
        return False
    return "I" in (match[1], match[2]) or _HARMLESS.search(line) is not None
