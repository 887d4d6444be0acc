"""Makes the runs: of the program under test and of its reference."""
