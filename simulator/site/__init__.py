"""A run's hands on another machine: a process that does there, for a stream of messages, what a machine does."""
