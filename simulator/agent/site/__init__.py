"""The directory that Lockstep puts on the PYTHONPATH of an unmodified program."""
