"""What the process of a task is told before it connects itself."""

from __future__ import annotations

import msgspec

SEMAPHORES_VARIABLE = "LOCKSTEP_SEMAPHORES"
"""How the names of the semaphores begin that a task's own processes make: with the mark by which they are found."""


class TaskSpec(msgspec.Struct, frozen=True):
    """Everything a task's process needs to know before it is told what to call."""

    task: str
    incarnation: int
    environ: dict[str, str]
    devices: str
    rank: int
    threads: int
    tensorflow: bool
    server: bool
    # The sockets and files of its machine, which fills them in.
    control: str = ""
    log: str = ""
    stacks: str = ""
    # A folder whose files come back to the run while they grow, where the task is on another machine.
    left: str = ""
    # What the monotonic clock of its machine says more than that of the run, in seconds.
    clock: float = 0.0
    # Points of the program at which the task stops until the parent lets it go on, such as `step:20`.
    gates: tuple[str, ...] = ()
    # What faults have to patch before the program begins; see `simulator.agent.faults.actions`.
    hooks: tuple[str, ...] = ()
    # Numbers of the GPUs that are the task's, and the memory of each logical device in MB where it splits one GPU; 0
    # for as much as it needs of whole ones.
    gpus: tuple[int, ...] = ()
    gpu_memory_mb: int = 0
    # By which its machine knows that it has started this process.
    key: str = ""
