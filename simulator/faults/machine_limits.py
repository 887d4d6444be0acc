"""What cannot be had over several machines is refused before anything starts, and never replaced by something else."""

from __future__ import annotations

from simulator.errors import UsageError
from simulator.faults.kinds import all_kinds
from simulator.faults.plan.plan import FaultPlan
from simulator.network import NAMESPACES, NetworkOptions
from simulator.topology import Topology


def check_alone(plan: FaultPlan) -> None:
    """See to it that nothing is asked of machines where there is only this one.

    Raises:
        UsageError: a fault strikes whole machines.
    """
    for fault in plan.faults:
        if fault.of_machines:
            raise UsageError(
                f"a fault of kind {fault.kind} takes a machine away, and all tasks are on this one; give --machines"
            )


def check_over_machines(topology: Topology, plan: FaultPlan, network: NetworkOptions, *, cable: bool) -> None:
    """See to it that tasks on several machines can do what is asked of them.

    Args:
        topology: the tasks.
        plan: what goes wrong.
        network: between the tasks.
        cable: whether the cable of a machine can be pulled.

    Raises:
        UsageError: they cannot; the message says what, and what to do.
    """
    if network.kind == NAMESPACES:
        raise UsageError(
            "--network=namespaces gives each task a host on this machine, so it cannot be had with --machines; leave "
            "one out"
        )
    _check_links(plan, network)
    if (kind := topology.gpu_kind) is not None:
        raise UsageError(
            f"devices {kind}: GPUs are lent on this machine alone, so tasks on other machines cannot be given theirs; "
            "use cpu:N with --machines"
        )
    for fault in plan.faults:
        if not fault.anywhere:
            raise UsageError(
                f"a fault of kind {fault.kind} acts on processes or files of this machine, so it cannot be had with "
                f"--machines; those that can are {', '.join(_anywhere())}"
            )
        if fault.needs_cable and not cable:
            raise UsageError(
                f"a fault of kind {fault.kind} pulls the cable of a machine, for which Lockstep has no means of its "
                "own; give a command that does it, with {} for the name: --machines-cable 'COMMAND {}'"
            )


def _check_links(plan: FaultPlan, network: NetworkOptions) -> None:
    """What links have carried is counted on the machines of those who send, and goes with them."""
    lost = next((fault for fault in plan.faults if fault.of_machines), None)
    if lost is None:
        return
    counted = [f"link {link}" for link in network.links if link.is_triggered]
    counted += [f"fault {fault.id}" for fault in plan.faults if fault.trigger in ("bytes", "connections")]
    if counted:
        raise UsageError(
            f"{counted[0]} waits for what a link carries, and a fault of kind {lost.kind} takes a machine away with "
            "all that has been counted there; let a step trigger it, or leave one of them out"
        )


def _anywhere() -> list[str]:
    return [name for name, kind in all_kinds().items() if kind.anywhere]
