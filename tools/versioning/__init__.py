"""What holds with other versions of TensorFlow, Keras and Python, measured in environments of their own."""
