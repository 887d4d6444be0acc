"""What the installed command `lockstep` calls."""

from __future__ import annotations

from _lockstep import names

__all__ = ["main"]


def main() -> None:
    """Run the command with Lockstep's own packages, whatever the path finds first."""
    names.claim()
    from harness.cli import main as run

    run()
