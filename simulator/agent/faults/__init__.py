"""What faults do inside a task."""

__all__: list[str] = []
