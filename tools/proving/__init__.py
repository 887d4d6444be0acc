"""What `tools/proofs.py` is made of."""
