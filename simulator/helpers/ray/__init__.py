"""The driver of Ray that leads a run to the nodes of a cluster, in a process of its own, and what it starts there."""
