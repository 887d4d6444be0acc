"""Reports of upstream defects: what a program of `docs/upstream/` shows, and the issue text that is made of it."""
