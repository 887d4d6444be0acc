"""Whether a run agrees with its reference, and why not."""

__all__: list[str] = []
