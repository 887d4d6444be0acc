"""What runs in the process of a test file and in its tasks, where TensorFlow is."""

__all__: list[str] = []
