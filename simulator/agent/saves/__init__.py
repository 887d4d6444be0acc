"""Saves and restores of a task, seen from inside."""

__all__: list[str] = []
