"""Ways to reach machines: one file each."""
