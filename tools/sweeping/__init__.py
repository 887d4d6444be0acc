"""Random right trainings, and small errors put into what they recorded: the parts of `tools/sweep.py`."""
