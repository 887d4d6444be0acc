"""Writes a failing plan as a pytest file that fails for as long as the defect is there."""

from __future__ import annotations

import itertools
import os
import pprint
import textwrap
from pathlib import Path
from typing import Any

from harness.search.outcome import PlanOutcome
from simulator import FaultPlan
from simulator.faults import describe_plan

_TEMPLATE = '''"""{title}

Found by `lockstep search`; it fails for as long as the defect is there. Run it with

    pytest {name}
"""

from pathlib import Path

from harness.search import survives
from simulator import FaultPlan

PROGRAM = f"{{Path(__file__).parent / {path!r}}}:{function}"
STRATEGY = {strategy!r}
PLAN = FaultPlan.from_mapping(
{plan}
)


def test_{test}() -> None:
    """{program} under {strategy} survives {faults}."""
    outcome = survives(PROGRAM, STRATEGY, PLAN{options})
    assert outcome, str(outcome)
    {struck}
'''
# Of a plan of which not every fault has struck when it failed, those may also be needed that have.
_ALL = 'assert not outcome.unfired, "the plan tests nothing any more: " + "; ".join(outcome.unfired)'
_SOME = 'assert any(outcome.struck), "the plan tests nothing any more: " + "; ".join(outcome.unfired)'


def name_of_test(program: str, strategy: str) -> str:
    """A name for the file and the test, of the function and the strategy."""
    words = f"{program.rpartition(':')[2]}_{strategy}"
    return "".join(letter if letter.isalnum() else "_" for letter in words).lower()


def write_test(
    folder: Path, program: str, strategy: str, plan: FaultPlan, outcome: PlanOutcome, options: dict[str, Any]
) -> Path:
    """Write `test_found_FUNCTION_STRATEGY.py`, or with a number in front of `.py` if there is such a file already.

    Args:
        folder: made if need be. The test names the program by its path from there.
        program: `FILE.py:FUNCTION`.
        strategy: its name.
        plan: what makes it fail; it stands in the test as data.
        outcome: what was wrong in a run of it.
        options: keyword arguments of `survives`, as data that `repr` writes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, _, function = program.rpartition(":")
    stem = f"test_found_{name_of_test(program, strategy)}"
    names = (f"{stem}_{number}.py" if number > 1 else f"{stem}.py" for number in itertools.count(1))
    path = next(folder / name for name in names if not (folder / name).exists())
    shown = ", ".join(f"{key}={value!r}" for key, value in options.items())
    text = _TEMPLATE.format(
        title=f"{Path(file).name}:{function} under {strategy}: a plan that it does not survive ({outcome.symptom}).",
        name=path.name,
        path=os.path.relpath(Path(file).resolve(), folder.resolve()),
        function=function,
        strategy=strategy,
        plan=textwrap.indent(pprint.pformat(plan.to_mapping(), width=100, sort_dicts=False), "    "),
        test=path.stem.removeprefix("test_"),
        program=function,
        faults=describe_plan(plan),
        options=f", {shown}" if shown else "",
        struck=_SOME if outcome.unfired else _ALL,
    )
    path.write_text(text)
    return path
