"""Trainings in which something is planted, and what their judge finds of it."""

__all__: list[str] = []
