"""The way into Lockstep, for shells, for pytest and for child processes; its name is one that no project has."""

__all__ = ["__version__"]

__version__ = "1.0.0rc1"
