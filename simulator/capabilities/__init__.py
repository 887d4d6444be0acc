"""What this machine can do: what is missing, what that costs, and what to do about it."""

from simulator.capabilities.probing import probe
from simulator.capabilities.report import Capabilities, Capability

__all__ = ["Capabilities", "Capability", "probe"]
