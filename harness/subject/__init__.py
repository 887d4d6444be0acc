"""What is tested: a program, under a strategy."""
