"""Everything of Lockstep that runs inside a task; it imports nothing of what runs in the parent."""

from simulator.agent.agent import current, now

__all__ = ["current", "now"]
