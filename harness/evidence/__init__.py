"""What a run has left, as data: traces, parts, files touched, links."""

__all__: list[str] = []
