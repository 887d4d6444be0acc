"""The soak: what is drawn, run and checked by `tools/soak.py`."""
