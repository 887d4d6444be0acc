"""The relay process, through which the connections between tasks go."""
