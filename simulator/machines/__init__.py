"""Machines on which tasks run."""
