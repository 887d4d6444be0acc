"""Ways to reach machines: one file each."""

__all__: list[str] = []
