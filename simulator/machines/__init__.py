"""Machines on which tasks run."""

__all__: list[str] = []
