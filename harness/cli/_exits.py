"""The exit codes of the command, in one place; that of a usage error is click's, for Lockstep's own as well."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any

import click

from simulator import UsageError


class Exit(enum.IntEnum):
    """What each code says; 128 and its number stands for a signal."""

    FINE = 0
    """Consistent, or finished."""
    INCONSISTENT = 1
    """Also a plan that the program does not survive, or a replay with another history."""
    USAGE = 2
    FAILED = 3
    """The run crashed or hung unasked, so that nothing could be judged."""
    LACKING = 4
    """This machine lacks what was required."""
    ABSTAINED = 5
    """Nothing can be said of the program, neither good nor bad."""
    INTERRUPTED = 130


# From best to worst. What was found wrong says more than what could not be judged.
_RANKED = (Exit.FINE, Exit.ABSTAINED, Exit.INCONSISTENT, Exit.USAGE, Exit.FAILED, Exit.LACKING, Exit.INTERRUPTED)
_OUTCOMES = {"consistent": Exit.FINE, "inconsistent": Exit.INCONSISTENT, "abstained": Exit.ABSTAINED}


def of_outcome(outcome: str) -> Exit:
    """The code for the `outcome` of a verdict."""
    return _OUTCOMES[outcome]


def of_proof(status: str, *, strict: bool) -> Exit:
    """The code for the `status` of a proof; `strict` takes what holds under a condition for wrong."""
    if status == "conditional" and strict:
        return Exit.INCONSISTENT
    return {"proved": Exit.FINE, "conditional": Exit.FINE, "refuted": Exit.INCONSISTENT}.get(status, Exit.ABSTAINED)


def worst(codes: Iterable[Exit]) -> Exit:
    """The code of several runs."""
    return max(codes, key=_RANKED.index)


class _Command(click.Command):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise click.UsageError(str(error), ctx) from error


def command(**settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """`click.command`, of which a `UsageError` of Lockstep's is a usage error."""
    return click.command(cls=_Command, **settings)
