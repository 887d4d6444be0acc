"""Plans of faults as data: read, checked, drawn."""

__all__: list[str] = []
