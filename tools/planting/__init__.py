"""Trainings in which something is planted, and what their judge finds of it."""
