"""Programs that differ in what one replica does not show, and so have one reference run between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from harness.subject.program import Program


def sharing(program: Callable[..., Any], right: Callable[..., Any]) -> Program:
    """The program, held against the reference run of the right one: under the default strategy both do just the same.

    Whichever is verified first runs for both.
    """
    return dataclasses.replace(Program.of(program), digest=Program.of(right).digest)
