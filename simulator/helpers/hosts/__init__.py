"""The process that keeps the hosts of a run: namespaces, cables, packet filters."""
