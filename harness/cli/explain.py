"""`lockstep explain`: what a code of a diagnostic says."""

from __future__ import annotations

import difflib

import click
import msgspec

from harness.cli._exits import command
from harness.cli._terminal_width import columns, show

_EPILOG = """\b
Examples:
  lockstep explain loss_times_replicas
  lockstep explain                          all codes
  lockstep explain --json
"""


@command(epilog=_EPILOG)
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object, or a list of all.")
def explain(code: str | None, as_json: bool) -> int:
    """Say what a CODE means that stands in `error[CODE]`, and what to do; without one, list them all."""
    from harness.judging.diagnostics.codes import all_codes
    from harness.judging.diagnostics.text import wrapped
    from harness.judging.facts import WIDTH
    from simulator.errors import meant

    codes, width = all_codes(), columns() or WIDTH
    if code is not None and code not in codes:
        raise click.UsageError(f"there is no code {code!r}; {meant(code, codes)}`lockstep explain` lists all")
    if as_json:
        click.echo(msgspec.json.encode([*codes.values()] if code is None else codes[code]))
        return 0
    if code is None:
        for kind in dict.fromkeys(each.kind for each in codes.values()):
            show(f"{kind}:")
            for each in codes.values():
                if each.kind == kind:
                    show("\n".join(wrapped(f"  {each.name}: ", each.says, width)))
        return 0
    found = codes[code]
    show("\n".join(wrapped(f"{found.name} ({found.kind}): ", f"{found.says}.", width)))
    for label, text in (("", found.more), ("help: ", found.cure)):
        if text:
            show("\n".join(("", *wrapped(label, " ".join(text.split()), width))))
    if found.right:
        both = difflib.ndiff(found.program.splitlines(), found.right.splitlines())
        lines = (line for line in both if not line.startswith("?"))
        under = "" if found.interrupt_at is None else f" with --interrupt-at {found.interrupt_at}"
        show("\n".join((f"\nwrong under {found.strategy}{under} (-), and right (+):\n", *map(str.rstrip, lines))))
    elif found.program:
        show(f"\n{found.program}")
    return 0
