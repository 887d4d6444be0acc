"""What runs in the process of a test file and in its tasks, where TensorFlow is."""
