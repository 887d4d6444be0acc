"""The prose of README and docs/: what is counted, and the rules that it has to keep."""
