"""One case of a program, verified in the program's environment."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.wilding.declared import Case, Wild
from tools.wilding.environments import PLACE, python_of

_COMMAND = "from _lockstep.command import main; main()"
_SECONDS_MAX = 600


@dataclass(frozen=True)
class Result:
    """What became of a case: `verdict` is that of `lockstep verify --json`, `seconds` those of the whole command."""

    case: Case
    verdict: dict[str, Any]
    seconds: float

    @property
    def outcome(self) -> str:
        """That of the verdict, or `failed`."""
        if "error" in self.verdict:
            return "failed"
        if "abstained" in self.verdict:
            return "abstained"
        return "consistent" if self.verdict["consistent"] else "inconsistent"

    @property
    def text(self) -> str:
        """All that the verdict says, as one text to look things up in."""
        return json.dumps(self.verdict)

    @property
    def as_declared(self) -> bool:
        """Whether it is what the program says that comes of it."""
        return self.outcome == self.case.outcome and self.case.because in self.text


def verified(wild: Wild, case: Case, place: Path = PLACE) -> Result:
    """Run `lockstep verify` as somebody would who has the package and Lockstep in one environment.

    Raises:
        ChildProcessError: the command printed no verdict; its text says what it printed.
    """
    command = [str(python_of(wild, place)), "-c", _COMMAND, "verify", f"{wild.file}:{case.function}"]
    command += ["--strategy", case.strategy, "--json", "--no-prove"]
    environ = {**os.environ, **wild.environ}
    # What the tests of Lockstep itself leave out is what a reader of these results wants to know.
    for name in ("LOCKSTEP_CULPRIT", "PYTHONDONTWRITEBYTECODE"):
        environ.pop(name, None)
    begin = time.monotonic()
    done = subprocess.run(
        command, cwd=place, env=environ, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
    )
    seconds = time.monotonic() - begin
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise ChildProcessError(f"{wild.name}: {case.function} under {case.strategy}: {done.stdout}\n{done.stderr}")
    return Result(case, json.loads(lines[-1]), seconds)
