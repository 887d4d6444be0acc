"""`lockstep audit`: which known defects of TensorFlow and Keras a program meets."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from harness.cli._exits import Exit, command, worst
from harness.cli._options import timeout_option
from harness.cli._scripts import names_of, script_of, script_options
from harness.cli._terminal_width import columns, show

_EPILOG = """\b
Examples:
  lockstep audit --devices cpu:2 -- python train.py
  lockstep audit --worker 2 -- python train.py --epochs 1
  lockstep audit train.py:train --strategy mirrored-2 --strategy multi_worker-2 --json

\b
Exit codes:
  0  no known defect is met
  1  one is met, or several
  3  the run failed, and had met none until then
"""


@command(epilog=_EPILOG)
@click.argument("program", nargs=-1, required=True, metavar="FILE.py:FUNCTION")
@click.option(
    "--strategy",
    "names",
    multiple=True,
    metavar="NAME",
    help="Strategy to run under; may be given several times. See `lockstep strategies`.  [default: mirrored-2]",
)
@script_options
@timeout_option("Seconds for the run.", 120.0)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object, or a list with several strategies.")
def audit(program: tuple[str, ...], **options: Any) -> int:
    """Say which known defects of the installed TensorFlow and Keras a training meets, each with its line and a way out.

    The program runs once under the strategy. What it builds and calls (layers, optimizers, callbacks, options of `fit`)
    is held against the defects that `lockstep explain ID` tells of. No number is judged: `lockstep verify` does that.
    """
    from harness.audits import audit as audited
    from harness.errors import MissingHardware
    from harness.judging.facts import WIDTH
    from harness.subject.program import Program
    from harness.subject.strategies import strategy_case
    from simulator.machines.local.private_files import PrivateFilesUnavailable

    options |= {"hardware": "cpu", "reference": "cpu", "fix": False}
    try:
        cases = [strategy_case(name) for name in dict.fromkeys(names_of(program, options))]
        under_test = Program.of(program[0]) if len(program) == 1 else script_of(program, options)
        found = []
        for case in cases:
            if not options["as_json"]:
                click.echo(f"{case.name}: running ...", err=True)
            found.append(audited(under_test, case, timeout=options["timeout"]))
    except (MissingHardware, PrivateFilesUnavailable) as error:
        click.echo(str(error), err=True)
        return Exit.LACKING
    if options["as_json"]:
        objects = [each.to_json() for each in found]
        click.echo(msgspec.json.encode(objects[0] if len(objects) == 1 else objects))
    else:
        show("\n\n".join(each.text(columns() or WIDTH) for each in found))
    return worst(Exit.INCONSISTENT if each.met else Exit.FAILED if each.failure else Exit.FINE for each in found)
