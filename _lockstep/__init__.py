"""The way into Lockstep, for shells, for pytest and for child processes; its name is one that no project has."""

__all__: list[str] = []
