"""`lockstep prove`: whether a training step is right for every batch, from its graph, held against a few rows."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harness.cli._exits import Exit, command, of_proof, worst
from harness.cli._options import html_option, timeout_option
from harness.cli._output_files import again, check_written, write_page
from harness.cli._terminal_width import columns, show
from simulator import UsageError

if TYPE_CHECKING:
    from harness.relations import Proof

_EPILOG = """\b
Examples:
  lockstep prove train.py:train
  lockstep prove train.py:train --strategy mirrored-2 --strategy multi_worker-2 --json
  lockstep prove train.py:train --strict            exit with 1 if it is right under a condition only
  lockstep prove --changed train.py models/cnn.py   what is in these files, as before a commit

\b
Exit codes:
  0  proved, or right under the conditions that are named (1 with --strict)
  1  refuted: a batch was run for which the numbers differ
  3  the program failed before its first training step
  5  open: neither follows from the graph; `lockstep verify` compares numbers (0 with --changed)
"""


@command(epilog=_EPILOG)
@click.argument("programs", metavar="FILE.py:FUNCTION...", nargs=-1, required=True)
@click.option(
    "--changed",
    is_flag=True,
    help="Arguments are files: prove every function in them whose first parameters are strategy and record. Neither a "
    "file without any nor a step that stays open fails.",
)
@click.option(
    "--strategy",
    "names",
    multiple=True,
    default=("mirrored-2",),
    show_default=True,
    metavar="NAME",
    help="Strategy to prove it under; may be given several times. See `lockstep strategies`.",
)
@click.option("--strict", is_flag=True, help="A step that is right under a condition only is not right.")
@timeout_option("Seconds until the step has to be traced, and for the batches that are tried.", 120.0)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object, or a list with several strategies.")
@html_option("Write the proofs as a page.")
def prove(programs: tuple[str, ...], **options: Any) -> int:
    """Infer from its graph whether a training step of FUNCTION(strategy, record) is right for every batch.

    The program runs until its first training step, which is traced under the strategy and on one device. From both
    graphs follows what each value of a replica is to the value of the one device, to every variable and to every value
    that is reported. A line is said to be wrong only where a batch was run that shows it.
    """
    return _prove(_found(programs) if options["changed"] else programs, options)


def _found(files: tuple[str, ...]) -> tuple[str, ...]:
    """The trainings in some files, as FILE.py:FUNCTION."""
    found = tuple(f"{file}:{name}" for file in files for name in trainings(Path(file)))
    if not found:
        show("nothing to prove: no function here begins with the parameters (strategy, record)", err=True)
    return found


def _prove(programs: tuple[str, ...], options: dict[str, Any]) -> int:
    from harness.subject.program import Program
    from harness.subject.strategies import strategy_case

    check_written(options["html"], None)
    cases = [strategy_case(name) for name in dict.fromkeys(options["names"])]
    codes: list[Exit] = []
    objects: list[dict[str, Any]] = []
    proofs: list[Proof] = []
    for under_test, case in itertools.product([Program.of(program) for program in programs], cases):
        if not options["as_json"]:
            named = f"{under_test.name} under {case.name}" if len(programs) > 1 else case.name
            click.echo(f"{named}: tracing ...", err=True)
        code, found, proof = _one(under_test, case, options)
        if proof is not None:
            proofs.append(proof)
        codes.append(Exit.FINE if options["changed"] and code == Exit.ABSTAINED else code)
        objects.append(found)
    if options["as_json"]:
        click.echo(msgspec.json.encode(objects[0] if len(objects) == 1 else objects))
    if options["html"] is not None:
        from harness.report.pages import proofs_page

        write_page(options["html"], proofs_page(proofs, again()))
    return worst(codes) if codes else Exit.FINE


def _one(program: Any, case: Any, options: dict[str, Any]) -> tuple[Exit, dict[str, Any], Proof | None]:
    from harness.errors import MissingHardware
    from harness.proofs import prove as traced_and_inferred
    from simulator import LockstepError

    named = {"program": program.name, "strategy": case.name}
    try:
        proof: Proof = traced_and_inferred(program, case, timeout=options["timeout"])
    except UsageError:
        raise
    except MissingHardware as error:
        show(str(error), err=True)
        return Exit.LACKING, {**named, "proof": None, "error": str(error)}, None
    except LockstepError as error:
        show(
            f"{case.name}: the program failed, or did not end, while its first training step was to be traced\n{error}",
            err=True,
        )
        return Exit.FAILED, {**named, "proof": None, "error": str(error)}, None
    if not options["as_json"]:
        show(proof.text(columns() or 110))
    return of_proof(proof.status, strict=options["strict"]), {**named, "proof": proof.to_json()}, proof


# Which functions of a file are trainings, without running it.


def trainings(file: Path) -> list[str]:
    """The names of functions on the top level that can be called as `train(strategy, record)`.

    Raises:
        UsageError: the file cannot be read, or is no Python.
    """
    try:
        tree = ast.parse(file.read_bytes(), file.name)
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{file} cannot be read as Python: {error}") from error
    return [each.name for each in tree.body if isinstance(each, ast.FunctionDef) and _is_training(each.args)]


def _is_training(arguments: ast.arguments) -> bool:
    """Whether two arguments by position are enough."""
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    required = len(names) - len(arguments.defaults)
    return names[:2] == ["strategy", "record"] and required <= len(names[:2]) and None not in arguments.kw_defaults
