"""The relay process, through which the connections between tasks go."""

__all__: list[str] = []
