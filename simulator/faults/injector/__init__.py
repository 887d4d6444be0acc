"""Carries out a plan during a run, in threads of the parent."""
