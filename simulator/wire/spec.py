"""What the process of a task is told before it connects itself."""

from __future__ import annotations

import msgspec

__all__ = ["TaskSpec"]


class TaskSpec(msgspec.Struct, frozen=True):
    """Everything a task's process needs to know before it is told what to call."""

    task: str
    incarnation: int
    control: str
    log: str
    stacks: str
    environ: dict[str, str]
    devices: str
    rank: int
    threads: int
    tensorflow: bool
    server: bool
    # Points of the program at which the task stops until the parent lets it go on, such as `step:20`.
    gates: tuple[str, ...] = ()
    # What faults have to patch before the program begins; see `simulator.agent.faults.actions`.
    hooks: tuple[str, ...] = ()
    # Numbers of the GPUs that are the task's, and the memory of each logical device in MB where it splits one GPU; 0
    # for as much as it needs of whole ones.
    gpus: tuple[int, ...] = ()
    gpu_memory_mb: int = 0
    # By which the parent knows that it has started this process.
    key: str = ""
