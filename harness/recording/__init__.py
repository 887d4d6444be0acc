"""What runs inside a client task and records."""

__all__: list[str] = []
