"""What is tested: a program, under a strategy."""

__all__: list[str] = []
