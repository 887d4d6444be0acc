"""What it costs to have tasks on machines behind a command, next to having them here; both machines are this one."""

from __future__ import annotations

from functools import partial

from benchmarks import over_machines
from benchmarks.measure import main

_TWO = "env MACHINE={}:m0,m1"
_KIND = "command"

MEASUREMENTS = (
    partial(over_machines.all_reduce, _TWO, 1.15, "ratio", _KIND),
    partial(over_machines.step_is_heard, _TWO, 0.5, _KIND),
    partial(over_machines.clocks, _TWO, _KIND),
    partial(over_machines.killed, _TWO, "task", _KIND),
    partial(over_machines.killed, _TWO, "site", _KIND),
)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
