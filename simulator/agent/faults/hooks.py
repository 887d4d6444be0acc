"""What faults have patched in a task before the program begins."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from simulator.agent.agent import Agent


def install(agent: Agent, hooks: Iterable[str]) -> None:
    """Patch TensorFlow in this process.

    `phase:NAME` is for gates in saving and restoring, besides `gradient:PATTERN` and `reduction:PATTERN`. Of phase
    `file_operation` the directory follows, as in `phase:file_operation:DIR`.
    """
    for hook in hooks:
        kind, _, argument = hook.partition(":")
        if kind == "phase":
            from simulator.agent.faults import phases

            phases.install(agent, argument)
        else:
            import_module(f"simulator.agent.faults.corrupt_{kind}").watch(argument)
