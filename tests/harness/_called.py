"""The command `lockstep`, called in this process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from harness.cli import _lockstep


def called(*arguments: object) -> Result:
    """As at a prompt: a usage error is printed as well, and any exit code is in `exit_code`."""
    return CliRunner().invoke(_lockstep, list(map(str, arguments)))


def lockstep(*arguments: object, code: int = 0) -> Result:
    """A call that ends with this exit code; whatever it raises is raised here."""
    result = CliRunner().invoke(_lockstep, list(map(str, arguments)), standalone_mode=False, catch_exceptions=False)
    assert result.return_value == code, result.output
    return result


def json_of(command: str, *arguments: object, code: int = 0) -> Any:
    """What such a call of this command says with `--json`."""
    return json.loads(lockstep(command, "--json", *arguments, code=code).stdout)


def usage_error(*arguments: object) -> str:
    """What a call says that is a usage error, after `Error: ` and in one line."""
    result = called(*arguments)
    assert result.exit_code == 2, result.output
    assert result.output.count("\nError: ") == 1, result.output
    return " ".join(result.output.partition("\nError: ")[2].split())
