"""Saves and restores of a task, seen from inside."""
