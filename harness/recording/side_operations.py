"""Operations that look at what a program computes run beside it, and not in turn with its own."""

from __future__ import annotations

from typing import Any


def run_beside(operation: Any) -> None:
    """Let an operation of a graph that has just been made run as soon as it can.

    TensorFlow lets those with effects, by which it means all that calls Python, wait for each other in the order in
    which they were made, the program's own among them.
    """
    manager = operation.graph.experimental_acd_manager
    if manager is not None:
        manager.run_independently(operation)
