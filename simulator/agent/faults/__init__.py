"""What faults do inside a task; a new file with a function `act` is a new action."""
