"""`lockstep compare`: one program under two topologies, plans or environments."""

from __future__ import annotations

import contextlib
import io
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from harness.cli._exits import Exit, command
from harness.cli._options import out_option
from harness.cli._terminal_width import columns, fitted, show
from harness.cli.verify import verify
from simulator import UsageError

_CODES = {"agree": Exit.FINE, "differ": Exit.INCONSISTENT, "abstained": Exit.ABSTAINED}
# These say how a verdict is shown or kept, which is not for one side to say.
_REFUSED = {"out": "--out", "as_json": "--json", "stream": "--stream", "verbose": "--verbose", "strict": "--strict"}

_EPILOG = """\b
Examples:
  lockstep compare train.py:train --a "--strategy mirrored-2" --b "--strategy multi_worker-2"
  lockstep compare train.py:train --a "--strategy mirrored-2" --b "--strategy mirrored-2 --python old/bin/python"
  lockstep compare train.py:train --a "--strategy multi_worker-2" \\
      --b "--strategy multi_worker-2 --fault kind=kill,task=worker:1,step=2,restart=1s"
  lockstep compare --a "--devices cpu:2" --b "--worker 2" -- python train.py
  lockstep compare monday/mirrored-2 tuesday/mirrored-2          what `lockstep verify --out` has kept
\b
Exit codes: 0 they agree; 1 they differ; 2 usage error; 3 a run failed; 4 this machine lacks what was required;
5 nothing could be compared.
"""


@command(epilog=_EPILOG, options_metavar="[OPTIONS]")
@click.argument("program", nargs=-1, required=True, metavar="FILE.py:FUNCTION | RUN_A RUN_B")
@click.option(
    "--a", "first", metavar="OPTIONS", help="Options of `lockstep verify` for the one run; also --python FILE."
)
@click.option("--b", "second", metavar="OPTIONS", help="The same for the other run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@out_option("Keep both runs in DIR, as a and b, in place of earlier ones; DIR holds nothing else.")
def compare(program: tuple[str, ...], first: str | None, second: str | None, as_json: bool, out: Path | None) -> int:
    """Run the same program twice, each time as its options say, and compare every number of the one with the other's.

    Each run is verified against its reference on one device, which says how far roundings may take it; the two may be
    apart by as much as both together. They may agree and both be wrong: then that is said, and `lockstep verify` is the
    command to ask. With --python FILE a run and its reference are made by the Python of another environment. Two runs
    that `lockstep verify --out` has kept are compared as they are, without TensorFlow.
    """
    if first is None and second is None:
        return _tell(_saved(program, out), as_json)
    if first is None or second is None:
        raise UsageError(f"give both runs: --{'a' if first is None else 'b'} is missing")
    return _run_both(program, {"a": first, "b": second}, out, as_json)


def _saved(program: Sequence[str], out: Path | None) -> list[Path]:
    if len(program) != 2:
        raise UsageError(
            'give both runs, such as --a "--strategy mirrored-2" --b "--strategy multi_worker-2", or two directories '
            "that `lockstep verify --out DIR` has written"
        )
    if out is not None:
        raise UsageError("--out keeps runs, and two kept ones are only read")
    return [_only_run(Path(each)) for each in program]


def _only_run(directory: Path) -> Path:
    """The run in a directory of `verify --out`, which has a folder for each strategy.

    Raises:
        UsageError: there is none, or more than one.
    """
    from harness.run_directory import VERDICT

    if (directory / VERDICT).exists():
        return directory
    found = sorted(path.parent for path in directory.glob(f"*/{VERDICT}"))
    if len(found) > 1:
        raise UsageError(f"{directory} holds runs under several strategies; name one of them, such as {found[0]}")
    if not found:
        raise UsageError(f"{directory} holds no run; make one with `lockstep verify ... --out {directory}`")
    return found[0]


def _run_both(program: tuple[str, ...], options: dict[str, str], out: Path | None, as_json: bool) -> int:
    from harness.run_directory import holds_verdicts
    from simulator.machines.local.scratch import scratch
    from simulator.out import OutDirectory

    sides = {name: _Asked(name, text, program) for name, text in options.items()}
    with contextlib.ExitStack() as stack:
        if out is None:
            place = stack.enter_context(scratch("compare"))
        else:
            kept = OutDirectory(out, lambda path: all(map(holds_verdicts, path.iterdir())), option="--out")
            kept.check()
            kept.make()
            stack.enter_context(kept.held())
            kept.add(*sides)
            place = out
        for name, side in sides.items():
            code = side.run(place / name)
            if code not in (Exit.FINE, Exit.INCONSISTENT, Exit.ABSTAINED):
                show(f"{name} ({side.text}) did not come to a verdict, so nothing is compared", err=True)
                return code
        return _tell([_only_run(place / name) for name in sides], as_json, [side.text for side in sides.values()])


class _Asked:
    """What one side is asked for, in the words of `lockstep verify`.

    Raises:
        UsageError: they are not options of it, or make no sense here.
    """

    def __init__(self, name: str, text: str, program: tuple[str, ...]) -> None:
        from harness.running.interpreter import Interpreter

        self.name, self.text = name, text
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"--{name}: {error}") from error
        self.python, words = _python_of(name, words)
        self.words = [*words, "--no-prove", "--", *program] if not _is_about_proofs(words) else [*words, "--", *program]
        try:
            params = verify.make_context(f"--{name}", list(self.words)).params
        except click.UsageError as error:
            raise UsageError(f"--{name}: {error.format_message()}") from error
        except click.exceptions.Exit as done:
            raise UsageError(f"--{name}: options of a run are expected; `lockstep verify --help` has them") from done
        if stray := params["program"][: -len(program)]:
            raise UsageError(
                f"--{name}: {stray[0]!r} is no option; write options of `lockstep verify`, such as --{name} "
                f'"--strategy {_strategy_in(stray[0])}"'
            )
        if given := [option for key, option in _REFUSED.items() if params[key]]:
            raise UsageError(f"--{name}: {given[0]} is not for one side of a comparison")
        if len(params["names"]) > 1:
            raise UsageError(f"--{name}: a side is one run; give one --strategy")
        self.interpreter = None if self.python is None else Interpreter.of(self.python)

    def run(self, directory: Path) -> int:
        """Verify into a directory, and return the exit code of that."""
        words = ["--out", str(directory), *self.words]
        click.echo(f"{self.name}: {self.text}", err=True)
        if self.interpreter is not None:
            from harness.running.interpreter import its_environ

            command = self.interpreter.running("from _lockstep.command import main; main()", "verify", *words)
            return subprocess.run(command, env=its_environ(), stdout=subprocess.DEVNULL, check=False).returncode
        # What it has to say is in the files, and what goes wrong on stderr.
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
            code: Any = verify.main(words, prog_name=f"lockstep verify (--{self.name})", standalone_mode=False)
        return int(code)


def _strategy_in(word: str) -> str:
    """A word that was given without its option, if it is a strategy; else one for an example."""
    from harness.subject.strategies import strategy_case

    try:
        return strategy_case(word).name
    except UsageError:
        return "mirrored-2"


def _is_about_proofs(words: Sequence[str]) -> bool:
    return any(each in ("--prove", "--no-prove") for each in words)


def _python_of(name: str, words: list[str]) -> tuple[str | None, list[str]]:
    """The value of `--python`, and the words without it."""
    rest, found = [], None
    remaining = iter(words)
    for each in remaining:
        if each == "--python":
            found = next(remaining, None)
            if found is None:
                raise UsageError(f"--{name}: --python names the interpreter of an environment, such as old/bin/python")
        elif each.startswith("--python="):
            found = each.partition("=")[2]
        else:
            rest.append(each)
    return found, rest


def _tell(directories: Sequence[Path], as_json: bool, labels: Sequence[str] = ()) -> int:
    from harness.comparing import compare_runs, read_side

    a, b = map(read_side, directories)
    compared = compare_runs(a, b)
    if as_json:
        click.echo(msgspec.json.encode(compared.to_json()))
    else:
        width = columns() or 110
        for name, side, label in zip("ab", (a, b), labels or map(str, directories), strict=True):
            show(fitted(f"{name}: {label}: {side.verdict.summary}", width))
        for line in compared.lines():
            show(line)
    return _CODES[compared.outcome]
