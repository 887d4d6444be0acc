"""Makes each wrong use and takes down the answer."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner

_FILES = {
    "train.py": "RATE = 0.1\n\n\ndef train(strategy, record):\n    pass\n",
    "script.py": "print('hello')\n",
    "notes.txt": "mine\n",
    "broken.py": "def train(:\n",
}


class _Uses(msgspec.Struct):
    """The file of uses."""

    commands: list[str]
    python: list[str]


@dataclass(frozen=True)
class Answer:
    """What somebody wrote and what came back; `code` is the exit code of a command, or the class of an error."""

    use: str
    code: str
    text: str


def answers(folder: Path) -> list[Answer]:
    """Of every use; made in a folder of its own, in which none leaves anything."""
    uses = msgspec.toml.decode((Path(__file__).with_name("uses.toml")).read_bytes(), type=_Uses)
    with _prepared(folder):
        before = sorted(Path().iterdir())
        found = [*map(_command, uses.commands), *map(_python, uses.python)]
        assert sorted(Path().iterdir()) == before, "a wrong use has left something behind"
    return found


@contextlib.contextmanager
def _prepared(folder: Path) -> Iterator[None]:
    for name, text in _FILES.items():
        (folder / name).write_text(text)
    (folder / "empty").mkdir()
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _command(line: str) -> Answer:
    from harness.cli import _lockstep

    result = CliRunner().invoke(_lockstep, shlex.split(line)[1:])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return Answer(line, type(result.exception).__name__, str(result.exception))
    said = [each for each in result.output.splitlines() if each.strip()]
    # The usage before it is the same for all uses of a command.
    errors = [number for number, each in enumerate(said) if each.startswith("Error: ")]
    return Answer(line, str(result.exit_code), " ".join(" ".join(said[errors[0] if errors else 0 :]).split()))


def _python(expression: str) -> Answer:
    import harness
    import simulator
    from simulator import faults

    names: dict[str, Any] = {name: getattr(simulator, name) for name in simulator.__all__}
    names |= {name: getattr(harness, name) for name in harness.__all__} | {"faults": faults}
    try:
        found = eval(expression, names)  # noqa: S307 - what stands in our own file
    except Exception as error:  # noqa: BLE001 - which one is what is asked
        # From 3.13 on Python itself adds this to what it says of an argument that it does not know.
        said = re.sub(r"(unexpected keyword argument '\w+')\. Did you mean '\w+'\?", r"\1", str(error))
        return Answer(expression, type(error).__name__, " ".join(said.split()))
    return Answer(expression, "accepted", repr(found))
