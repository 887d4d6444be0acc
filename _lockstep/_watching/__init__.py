"""A folder for PYTHONPATH: it has a training watched that others start."""
