"""How an action in a task tells the parent what came of it."""

from __future__ import annotations

import time
from typing import Any

from simulator.agent.agent import Agent
from simulator.wire import control

__all__ = ["Report"]


class Report:
    """Tells the parent what came of an action."""

    def __init__(self, agent: Agent, fault: str) -> None:
        self._agent = agent
        self._fault = fault

    def __call__(self, **effect: Any) -> None:
        """Send what was measured."""
        self._agent.send(control.Acted(fault=self._fault, effect=effect, at=time.monotonic()))
