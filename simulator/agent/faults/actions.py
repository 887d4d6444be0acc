"""What the agent does in its task for a fault, at a gate; a new file with a function `act` is a new action."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable
from typing import Any

from simulator.agent.agent import Agent
from simulator.wire import control


class ActionReport:
    """Tells the parent what came of an action."""

    def __init__(self, agent: Agent, fault: str) -> None:
        self._agent = agent
        self._fault = fault

    def __call__(self, **effect: Any) -> None:
        """Send what was measured."""
        self._agent.send(control.Acted(fault=self._fault, effect=effect, at=time.monotonic()))


def perform(agent: Agent, actions: Iterable[control.Action]) -> None:
    """Do what the parent asks, in order, and report what came of it; an action may end the process."""
    for action in actions:
        # Relative, because a process may have this package under another name; see `_lockstep.private`.
        module = importlib.import_module(f".{action.kind}", __package__)
        module.act(ActionReport(agent, action.fault), **action.arguments)
