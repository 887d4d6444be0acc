"""Tests of held ports."""

from __future__ import annotations

import itertools
import socket

import pytest

from simulator.machines.local.ports import PortsUnavailable, held, hold_ports


def _bind(number: int, *, reuse: bool) -> None:
    with socket.socket() as taken:
        if reuse:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("", number))


def test_a_held_port_can_be_bound_only_with_reuse() -> None:
    """A task that asks for SO_REUSEPORT gets the port, anybody else does not."""
    with hold_ports(["worker:0"]) as ports:
        with pytest.raises(OSError, match="in use"):
            _bind(ports["worker:0"], reuse=False)
        _bind(ports["worker:0"], reuse=True)


def test_a_held_port_cannot_be_held_twice() -> None:
    """Two Lockstep processes never hold the same port, although both allow reuse."""
    with hold_ports(["worker:0"]) as ports, pytest.raises(OSError, match="in use"):
        held(ports["worker:0"])


def test_a_port_taken_after_it_was_picked_is_passed_over() -> None:
    """Picking and holding are two steps; the loser of the race picks again."""
    with socket.socket() as rival:
        rival.bind(("", 0))
        taken = rival.getsockname()[1]
        with socket.socket() as probe:
            probe.bind(("", 0))
            free = probe.getsockname()[1]
        proposals = iter([taken, taken, free])
        with hold_ports(["worker:0"], pick=lambda: next(proposals)) as ports:
            assert ports == {"worker:0": free}


def test_ports_run_out_loudly() -> None:
    """When no proposal can be held, the error says so instead of trying for ever."""
    with socket.socket() as rival:
        rival.bind(("", 0))
        taken = rival.getsockname()[1]
        with (
            pytest.raises(PortsUnavailable, match="no free port"),
            hold_ports(["a"], pick=itertools.repeat(taken).__next__),
        ):
            pass


def test_ports_are_free_again_afterwards() -> None:
    """Leaving the context lets go of every port."""
    with hold_ports(["a", "b"]) as ports:
        pass
    for number in ports.values():
        _bind(number, reuse=False)
