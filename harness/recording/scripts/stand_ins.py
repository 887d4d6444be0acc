"""What the one replica of a reference is told in place of the cluster that it stands for, and which lines asked."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from types import FrameType

from harness.evidence.stand_ins import StandIn
from harness.recording.watch.places import Places
from harness.subject.script import Script
from simulator.agent.places import place

_OWN = str(Path(__file__).parents[3]) + os.sep
_CONVERTED = "__autograph_generated_file"
_CONVERTER = str(Path("tensorflow", "python", "autograph", "impl", "api.py"))
"""Through which a function that AutoGraph has converted calls others."""
_OWN_PACKAGES = tuple(f"{_OWN}{name}{os.sep}" for name in ("harness", "simulator", "_lockstep"))


class CannotStandIn(Exception):
    """Raised in a reference at a line which one replica cannot answer; the verdict abstains with this sentence."""


class BuildsNoStrategy(Exception):
    """Raised where a script has no strategy of the kind that was asked for: there is nothing to verify."""


class StandIns:
    """Collects them.

    Args:
        script: what is run.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self._found: dict[StandIn, None] = {}
        self._places = Places()
        places = sysconfig.get_paths()
        self._foreign = (*_OWN_PACKAGES, *{places[key] + os.sep for key in places if key.endswith("lib")}, "<")
        # Through which a variable of the environment is read.
        self._standard = ("<frozen", *(f"{places['stdlib']}{os.sep}{name}.py" for name in ("os", "_collections_abc")))

    @property
    def found(self) -> tuple[StandIn, ...]:
        """Each once, in the order in which they came."""
        return tuple(self._found)

    def note(self, what: str, taken: object, trust: str = "sure", where: str | None = None, product: int = 0) -> None:
        """Something was answered."""
        self._found[StandIn(what, where or self.line(), str(taken), trust, product)] = None

    def cannot(self, text: str) -> CannotStandIn:
        """The exception for something that cannot be answered here."""
        where = self.line()
        self._found[StandIn(text, where, "nothing", "unknown")] = None
        return CannotStandIn(f"{where}: {text}")

    def assumed(self, where: str) -> int | None:
        """What the user says that the number of replicas is at a line."""
        for known, count in self.script.assume.items():
            if where == known or where.endswith(f"/{known}"):
                return count
        return None

    def asked_by_script(self) -> bool:
        """Whether the caller of the function that asks is a file of the user's, and none of a library's or ours."""
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - who calls is all that is to be known
        while frame is not None and self._calls_for_others(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return False
        # AutoGraph converts functions of the user's, and none of TensorFlow's or Keras's.
        file = frame.f_code.co_filename
        return _CONVERTED in file or self._is_users(file)

    def line(self) -> str:
        """The innermost line of the user's files, as written before AutoGraph converted it."""
        from tensorflow.python.util import tf_stack

        for frame in reversed(list(tf_stack.extract_stack())):
            file, line, _ = self._places.written(frame.filename, frame.lineno, frame.name)
            if self._is_users(file):
                return place(self._shown(file), line)
        return self.script.name

    def _calls_for_others(self, filename: str) -> bool:
        return filename.startswith(self._standard) or filename.endswith(_CONVERTER)

    def _is_users(self, filename: str) -> bool:
        return not filename.startswith(self._foreign) and _CONVERTED not in filename

    def _shown(self, filename: str) -> str:
        below = f"{self.script.cwd}{os.sep}"
        return filename.removeprefix(below)
