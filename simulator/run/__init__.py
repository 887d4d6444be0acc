"""One run, in the parent: its tasks, what they say, what is done when they fail."""
