"""What `tools/trials.py` is made of."""
