"""Training steps of unmodified programs: how they are counted, and how a program can count them itself."""

from simulator.agent.steps.counter import step

__all__ = ["step"]
