"""What the Python of another environment calls: which Lockstep it has, and the reference of a program."""

from __future__ import annotations

from _lockstep import names


def code() -> str:
    """Stands for the code of the Lockstep that this Python has."""
    names.claim()
    from harness.running.dependencies import code_digest

    return code_digest()


def answer(request: str, reply: str) -> None:
    """Make the runs of a reference; see `harness.running.other_environment`."""
    names.claim()
    from harness.running.other_environment import answer as make

    make(request, reply)
