"""Blocks of README and docs/ that a reader pastes: Python has all that it names, and shell lines are understood."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from harness.cli import _lockstep
from tests._blocks import PAGES, blocks, is_run


def _undefined(code: str) -> list[str]:
    """The names that a block of Python uses and does not have."""
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "concise", "-"]
    found = subprocess.run(ruff, input=code, capture_output=True, text=True, check=False)
    return re.findall(r"Undefined name `(\w+)`", found.stdout)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_can_be_pasted_alone(page: Path) -> None:
    """Each imports and defines what it names; a page's blocks share a namespace only where they are run here."""
    missing = {
        block.line: names
        for block in blocks(page)
        if block.language == "python" and is_run(block) and (names := _undefined(block.code))
    }
    assert missing == {}


def _shell_lines() -> Iterator[tuple[str, list[str]]]:
    """(place, words) of each `lockstep ...` in a block that is not run, and in an indented one."""
    for page in PAGES:
        text = page.read_text()
        lines = [
            (block.line + number, line.removeprefix("$ "))
            for block in blocks(page)
            if block.language in ("sh", "console") and not is_run(block)
            for number, line in enumerate(block.code.splitlines())
        ]
        lines += [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if line.startswith("    lockstep ")]
        for number, line in lines:
            if line.startswith("lockstep ") and "..." not in line:
                command = re.split(r" >|; echo", line)[0]
                yield f"{page.name}:{number}", shlex.split(command, comments=True)[1:]


def _parsed(words_of_line: list[str]) -> None:
    """Raise `click.UsageError` unless the command takes these words, and its choices these values."""
    context = click.Context(_lockstep)
    name, command, rest = _lockstep.resolve_command(context, words_of_line)
    assert command is not None
    inner = click.Context(command, info_name=name, **command.context_settings)
    values, _, _ = command.make_parser(inner).parse_args(rest)
    for param in command.params:
        if isinstance(param.type, click.Choice) and isinstance(values.get(str(param.name)), str):
            param.type.convert(values[str(param.name)], param, inner)


def test_shell_lines_are_understood() -> None:
    """What the pages show and no test runs are commands with options that there are."""
    lines = list(_shell_lines())
    assert len(lines) > 60
    for place, line in lines:
        try:
            _parsed(line)
        except click.UsageError as error:
            pytest.fail(f"{place}: lockstep {shlex.join(line)}: {error.format_message()}")
    for wrong in (["verfy", "train.py:train"], ["verify", "--strategi", "mirrored-2"], ["verify", "--format", "xml"]):
        with pytest.raises(click.UsageError):
            _parsed(wrong)


def test_a_name_that_a_block_lacks_is_found() -> None:
    """Where it is used before it is there, or never is."""
    assert _undefined("train = 1\nverify(train)\n") == ["verify"]
