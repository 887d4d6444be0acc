"""Connects the process of an unmodified program to its run, so that its steps are heard and its gates work."""

from __future__ import annotations

import os
import socket

import msgspec

from simulator.agent import semaphores
from simulator.agent.agent import Agent, adopt, current
from simulator.agent.faults import actions
from simulator.wire.spec import TaskSpec

AGENT_VARIABLE = "LOCKSTEP_AGENT"
# Held for as long as this process lives: whoever holds it speaks for the task.
_begun = False
_claim: socket.socket | None = None


def begin(connected: Agent) -> None:
    """Stop at gate `step:0`, once for each process: before its first step, and before TensorFlow does anything."""
    global _begun  # noqa: PLW0603 - one for the process, as long as it lives
    if not _begun:
        _begun = True
        connected.gate("step:0")


def attach() -> Agent | None:
    """The agent of this process; connected now if it is the first one of its task to ask.

    A task may consist of several processes, for example a shell script that calls Python, or helpers of a data
    pipeline. The first that imports TensorFlow, or calls `simulator.step()`, speaks for the task for as long as it
    lives. Returns `None` in all others, and outside a task.
    """
    global _claim  # noqa: PLW0603 - one for the process, as long as it lives
    if current() is not None or _claim is not None or AGENT_VARIABLE not in os.environ:
        return current()
    spec = msgspec.json.decode(os.environ[AGENT_VARIABLE], type=TaskSpec)
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        # An abstract name leaves no file, and the kernel gives it back at the end of the process.
        claim.bind(f"\0{spec.control}-{spec.task}-{spec.incarnation}")
    except OSError:
        claim.close()
        return None
    _claim = claim
    semaphores.name_as_asked()
    connected = Agent(spec, actions.perform)
    adopt(connected)
    return connected
