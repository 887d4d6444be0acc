"""Programs of `examples/wild/`: what they declare, environments with their packages, and what became of them."""
