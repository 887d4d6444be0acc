"""This machine: held ports, temporary directories, and the process that cleans up after a killed parent."""
